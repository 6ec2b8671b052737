#include "dist/comm/process/free_ranges.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <utility>

using tessera::dist::FreeRanges;

TEST_CASE("free ranges: the smallest that is large enough is taken, and neighbours are merged") {
  FreeRanges free;
  CHECK(free.acquire(1) == -1);
  free.release(0, 1024);
  CHECK(free.acquire(100) == 0);  // 128 bytes
  CHECK(free.acquire(256) == 128);
  CHECK(free.acquire(64) == 384);
  free.release(128, 256);
  CHECK(free.acquire(200) == 128);  // not from the larger range
  CHECK(free.acquire(1024) == -1);
  free.release(0, 100);
  free.release(384, 64);
  free.release(128, 200);
  CHECK(free.free_before(1024) == 1024);
  CHECK(free.acquire(1024) == 0);
  CHECK(free.free_before(1024) == 0);
}

TEST_CASE("free ranges: in any order, no two blocks overlap and all memory is free again at the end") {
  FreeRanges free;
  constexpr int64_t end = 1 << 20;
  free.release(0, end);
  std::map<int64_t, int64_t> taken;
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2) {
      const int64_t nbytes = 1 + random() % 5000, offset = free.acquire(nbytes);
      if (offset < 0) continue;
      const auto next = taken.lower_bound(offset);
      CHECK((next == taken.end() || offset + nbytes <= next->first));
      CHECK((next == taken.begin() || std::prev(next)->first + std::prev(next)->second <= offset));
      taken.emplace(offset, nbytes);
    } else if (!taken.empty()) {
      auto block = taken.begin();
      std::advance(block, random() % taken.size());
      free.release(block->first, block->second);
      taken.erase(block);
    }
  }
  for (const auto& [offset, nbytes] : taken) free.release(offset, nbytes);
  CHECK(free.acquire(end) == 0);
}
