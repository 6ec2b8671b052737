#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "tensor/error.h"
#include "tensor/memory/cpu_allocator.h"
#include "tensor/memory/poison.h"

using namespace tessera;

namespace {

constexpr int64_t mebibyte = int64_t{1} << 20, range = int64_t{4} << 30;

/// Pseudorandom draws, the same on every machine.
class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  int64_t below(int64_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((state_ >> 33) % static_cast<uint64_t>(n));
  }

 private:
  uint64_t state_;
};

/// A block with a mark of its own written at its ends and in between.
struct Marked {
  unsigned char* data;
  int64_t nbytes;
  unsigned char mark;

  void write() const {
    for (int64_t i = 0; i < nbytes; i += 4096) data[i] = mark;
    data[nbytes - 1] = mark;
  }
  bool intact() const {
    for (int64_t i = 0; i < nbytes; i += 4096)
      if (data[i] != mark) return false;
    return data[nbytes - 1] == mark;
  }
};

Marked take(CachingAllocator& allocator, int64_t nbytes, int64_t mark) {
  void* const block = allocator.allocate(nbytes);
  const Marked taken{static_cast<unsigned char*>(block), nbytes, static_cast<unsigned char>(mark)};
  taken.write();
  return taken;
}

bool aligned(const void* block) {
  return reinterpret_cast<uintptr_t>(block) % cpu_alignment == 0;
}

/// The bytes held, as a multiple of the peak in use.
double share(CachingAllocator& allocator) {
  const CpuAllocatorStatistics s = allocator.statistics();
  return static_cast<double>(s.reserved) / static_cast<double>(s.peak_used);
}

}  // namespace

TEST_CASE("allocator: blocks of any size are aligned, do not overlap, and keep what is written into them") {
  CachingAllocator allocator(range);
  Draws draws(1);
  std::vector<Marked> live;
  int64_t wrong = 0;
  for (int i = 0; i < 20000; ++i) {
    if (live.size() < 200 || draws.below(2) == 0) {
      const int64_t nbytes = 1 + draws.below(int64_t{1} << (1 + draws.below(20)));
      live.push_back(take(allocator, nbytes, i));
      wrong += !aligned(live.back().data);
    }
    while (live.size() > 300) {
      std::swap(live[static_cast<size_t>(draws.below(300))], live.back());
      wrong += !live.back().intact();
      allocator.deallocate(live.back().data, live.back().nbytes);
      live.pop_back();
    }
  }
  for (const Marked& block : live) {
    wrong += !block.intact();
    allocator.deallocate(block.data, block.nbytes);
  }
  CHECK(wrong == 0);
  const CpuAllocatorStatistics end = allocator.statistics();
  CHECK(end.cached == end.reserved);  // nothing is in use
  CHECK(share(allocator) <= 1.3);
  // All free blocks are merged: a block of nearly all bytes held takes nothing from the system.
  void* const merged = allocator.allocate(end.reserved - 2 * mebibyte);
  CHECK(allocator.statistics().system_allocations == end.system_allocations);
  allocator.deallocate(merged, end.reserved - 2 * mebibyte);
}

TEST_CASE("allocator: growing tensors, each made from the one before, hold little more than the last two") {
  CachingAllocator allocator(range);
  Marked last = take(allocator, 1, 1);
  for (int64_t i = 1; i <= 400; ++i) {
    const Marked next = take(allocator, i * 80'000, i);
    CHECK(last.intact());
    allocator.deallocate(last.data, last.nbytes);
    last = next;
    if (i >= 100) CHECK(share(allocator) <= 1.3);
  }
  allocator.deallocate(last.data, last.nbytes);
}

TEST_CASE("allocator: steps of random lengths hold at most 1.3 times the peak in use") {
  for (const bool in_order : {true, false})
    for (const int64_t width : {100, 333, 1024}) {
      CachingAllocator allocator(range);
      Draws draws(static_cast<uint64_t>(width));
      std::vector<std::pair<void*, int64_t>> live;
      double most = 0;
      for (int step = 0; step < 10'000 / 6; ++step) {
        const int64_t length = 1 + draws.below(512);
        for (int layer = 0; layer < 12; ++layer)
          for (const int64_t columns : {width, 3 * width, 4 * width, length, int64_t{1}}) {
            const int64_t nbytes = length * columns * 4;
            live.emplace_back(allocator.allocate(nbytes), nbytes);
            if (layer % 3 > 0) continue;  // kept for the backward
            allocator.deallocate(live.back().first, nbytes);
            live.pop_back();
          }
        while (!live.empty()) {
          if (!in_order)
            std::swap(live[static_cast<size_t>(draws.below(static_cast<int64_t>(live.size())))], live.back());
          allocator.deallocate(live.back().first, live.back().second);
          live.pop_back();
        }
        if (allocator.statistics().peak_used > 8 * mebibyte) most = std::max(most, share(allocator));
      }
      CAPTURE(width);
      CHECK(most <= 1.3);
      CHECK(most >= 1);
    }
}

TEST_CASE("allocator: holes too small for any block give their pages back") {
  CachingAllocator allocator(range);
  std::vector<Marked> blocks, kept;
  for (int64_t i = 0; i < 128; ++i) blocks.push_back(take(allocator, mebibyte, i));
  for (size_t i = 0; i < blocks.size(); ++i)
    if (i % 2 == 0)
      allocator.deallocate(blocks[i].data, blocks[i].nbytes);
    else
      kept.push_back(blocks[i]);
  for (int64_t i = 0; i < 42; ++i) kept.push_back(take(allocator, 3 * mebibyte / 2, 200 + i));
  CHECK(allocator.statistics().peak_used == 128 * mebibyte);
  CHECK(share(allocator) <= 1.3);
  for (const Marked& block : kept) {
    CHECK(block.intact());
    allocator.deallocate(block.data, block.nbytes);
  }
}

TEST_CASE("allocator: a repeated step takes nothing from the system") {
  CachingAllocator allocator(range);
  Draws draws(5);
  std::vector<int64_t> sizes;
  for (int i = 0; i < 200; ++i) sizes.push_back(1 + draws.below(int64_t{1} << (4 + draws.below(18))));
  const auto step = [&] {
    std::vector<std::pair<void*, int64_t>> live;
    for (size_t i = 0; i < sizes.size(); ++i) {
      live.emplace_back(allocator.allocate(sizes[i]), sizes[i]);
      if (i % 4 != 3) continue;
      std::swap(live[live.size() / 2], live.back());
      allocator.deallocate(live.back().first, live.back().second);
      live.pop_back();
    }
    for (const auto& [block, nbytes] : live) allocator.deallocate(block, nbytes);
  };
  for (int i = 0; i < 3; ++i) step();
  const CpuAllocatorStatistics before = allocator.statistics();
  for (int i = 0; i < 50; ++i) step();
  CHECK(allocator.statistics().system_allocations == before.system_allocations);
  CHECK(allocator.statistics().reserved == before.reserved);
}

TEST_CASE("allocator: blocks of gibibytes, and more than the system has") {
  CachingAllocator allocator(int64_t{256} << 20);  // each larger block has a range of its own
  std::vector<std::pair<void*, int64_t>> live;
  for (const int64_t nbytes : {int64_t{1}, int64_t{1} << 30, int64_t{300} << 20, (int64_t{3} << 29) + 1}) {
    live.emplace_back(allocator.allocate(nbytes), nbytes);
    REQUIRE(aligned(live.back().first));
    static_cast<char*>(live.back().first)[nbytes - 1] = 'x';
  }
  CHECK_THROWS_WITH_AS(allocator.allocate(INT64_MAX),
                       doctest::Contains("the system has no 9223372036854775807"), OutOfMemoryError);
  CHECK_THROWS_AS(allocator.allocate(int64_t{1} << 60), OutOfMemoryError);
  for (const auto& [block, nbytes] : live) {
    CHECK((nbytes == 1 || static_cast<char*>(block)[nbytes - 1] == 'x'));
    allocator.deallocate(block, nbytes);
  }
  const CpuAllocatorStatistics s = allocator.statistics();
  CHECK(s.cached == s.reserved);
}

TEST_CASE("allocator: after `empty` it holds what is in use, with its values") {
  CachingAllocator allocator(range);
  const Marked kept = take(allocator, 10 * mebibyte, 7), given = take(allocator, 50 * mebibyte, 8),
               after = take(allocator, 1000, 9);
  allocator.deallocate(given.data, given.nbytes);
  CHECK(allocator.statistics().reserved >= 60 * mebibyte);
  allocator.empty();
  CHECK(allocator.statistics().reserved <= 13 * mebibyte);
  CHECK(kept.intact());
  CHECK(after.intact());
  const Marked again = take(allocator, 50 * mebibyte, 10);
  CHECK(again.intact());
  CHECK(kept.intact());
  for (const Marked& block : {kept, after, again}) allocator.deallocate(block.data, block.nbytes);
}

TEST_CASE("allocator: threads take and give back their own blocks and each other's") {
  CachingAllocator allocator(range);
  std::mutex mutex;
  std::deque<Marked> passed;  // taken by one thread, given back by another
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Draws draws(t + 1);
      for (int i = 0; i < 3000; ++i) {
        const Marked mine = take(allocator, 1 + draws.below(int64_t{1} << (1 + draws.below(18))), i + 31);
        wrong += !aligned(mine.data);
        Marked other = mine;
        {
          const std::lock_guard lock(mutex);
          passed.push_back(mine);
          if (passed.size() > 40) {
            other = passed.front();
            passed.pop_front();
          } else {
            other.data = nullptr;
          }
        }
        if (!other.data) continue;
        wrong += !other.intact();
        allocator.deallocate(other.data, other.nbytes);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const Marked& block : passed) {
    wrong += !block.intact();
    allocator.deallocate(block.data, block.nbytes);
  }
  CHECK(wrong == 0);
  const CpuAllocatorStatistics s = allocator.statistics();
  CHECK(s.cached == s.reserved);
}

TEST_CASE("page range: pages are held after commit, and read as zeros when committed again after release") {
  PageRange pages(16 * mebibyte);
  REQUIRE(pages.bytes() == 16 * mebibyte);
  std::byte* const begin = pages.begin();
  CHECK(pages.missing(begin, begin + 1) == 2 * mebibyte);
  CHECK(pages.commit(begin, begin + 3 * mebibyte) == 4 * mebibyte);
  CHECK(pages.commit(begin, begin + 4 * mebibyte) == 0);
  std::memset(begin, 1, 4 * mebibyte);
  // The first and the last granule are partly in use and stay.
  CHECK(pages.release(begin + 1, begin + mebibyte - 1) == mebibyte - 2 * PageRange::granule);
  CHECK(pages.release(begin + 1, begin + mebibyte - 1) == 0);
  CHECK(begin[PageRange::granule - 1] == std::byte{1});
  CHECK(pages.missing(begin, begin + 2 * mebibyte) == mebibyte - 2 * PageRange::granule);
  CHECK(pages.commit(begin, begin + 2 * mebibyte) == mebibyte - 2 * PageRange::granule);
  CHECK(begin[PageRange::granule] == std::byte{0});
  CHECK(begin[mebibyte] == std::byte{1});
  CHECK(PageRange(int64_t{1} << 60).bytes() == 0);  // more addresses than there are
}

#if defined(TESSERA_POISONS_MEMORY)
TEST_CASE("allocator: the address sanitizer rejects free memory and what follows a block") {
  CachingAllocator allocator(range);
  for (const int64_t nbytes : {1, 64, 1000, 100'000, 3'000'000}) {
    char* const block = static_cast<char*>(allocator.allocate(nbytes));
    const int64_t vectors = (nbytes + 63) / 64 * 64;
    CHECK(__asan_region_is_poisoned(block, static_cast<size_t>(vectors)) == nullptr);
    CHECK(__asan_address_is_poisoned(block + vectors));
    allocator.deallocate(block, nbytes);
    CHECK(__asan_address_is_poisoned(block + 16));
  }
}
#endif
