#include "tensor/cuda/memory/segment_heap.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <vector>

using tessera::cuda_runtime::Block;
using tessera::cuda_runtime::SegmentHeap;

namespace {

constexpr int64_t mib = 1 << 20;

/// A device of limited memory: segments from the host, counted.
struct FakeDevice {
  int64_t limit = 256 * mib, held = 0;
  std::map<void*, int64_t> segments;

  void* take(int64_t bytes) {
    if (held + bytes > limit) return nullptr;
    void* segment = std::aligned_alloc(4096, static_cast<size_t>(bytes));
    held += bytes;
    segments[segment] = bytes;
    return segment;
  }
  void give(void* segment, int64_t bytes) {
    CHECK(segments.at(segment) == bytes);
    segments.erase(segment);
    held -= bytes;
    std::free(segment);
  }
  ~FakeDevice() {
    for (const auto& [segment, bytes] : segments) std::free(segment);
  }
  SegmentHeap heap() {
    return SegmentHeap([this](int64_t bytes) { return take(bytes); },
                       [this](void* segment, int64_t bytes) { give(segment, bytes); });
  }
};

const int streams[2] = {};

}  // namespace

TEST_CASE("cuda memory: blocks are cut from segments, and joined again when they are given back") {
  FakeDevice device;
  SegmentHeap heap = device.heap();
  Block* a = heap.allocate(1000, &streams[0]);
  Block* b = heap.allocate(3000, &streams[0]);
  Block* c = heap.allocate(1, &streams[0]);
  CHECK(a->bytes == 1024);
  CHECK(b->address == a->address + 1024);
  CHECK(c->address == b->address + 3072);
  CHECK(heap.segments_taken() == 1);
  CHECK(heap.reserved() == 2 * mib);
  heap.free(a);
  heap.free(c);
  CHECK(heap.largest_free() == 2 * mib - 1024 - 3072);  // c joined the rest; b keeps a apart
  heap.free(b);
  CHECK(heap.largest_free() == 2 * mib);
  CHECK(heap.release_free_segments() == 2 * mib);
  CHECK(device.held == 0);
}

TEST_CASE("cuda memory: the best fit is given out, to the stream that gave it back") {
  FakeDevice device;
  SegmentHeap heap = device.heap();
  Block* large = heap.allocate(40 * mib, &streams[0]);
  Block* small = heap.allocate(24 * mib, &streams[0]);
  char *large_address = large->address, *small_address = small->address;
  heap.free(large);
  heap.free(small);
  CHECK(heap.allocate(23 * mib, &streams[0])->address == small_address);
  CHECK(heap.allocate(30 * mib, &streams[0])->address == large_address);
  CHECK(heap.segments_taken() == 2);
  heap.allocate(1 * mib, &streams[1]);  // another stream has no part in the rest
  CHECK(heap.segments_taken() == 3);
}

TEST_CASE("cuda memory: a block keeps a rest that no request could use") {
  FakeDevice device;
  SegmentHeap heap = device.heap();
  Block* a = heap.allocate(20 * mib, &streams[0]);
  heap.free(a);
  Block* b = heap.allocate(19 * mib + mib / 2, &streams[0]);  // half a MiB is no large block
  CHECK(b->bytes == 20 * mib);
  CHECK(heap.largest_free() == 0);
}

TEST_CASE("cuda memory: without memory there is no block, and giving segments back makes room") {
  FakeDevice device;
  device.limit = 64 * mib;
  SegmentHeap heap = device.heap();
  Block* a = heap.allocate(40 * mib, &streams[0]);
  CHECK(heap.allocate(40 * mib, &streams[0]) == nullptr);
  heap.free(a);
  CHECK(heap.allocate(50 * mib, &streams[1]) == nullptr);
  CHECK(heap.release_free_segments() == 40 * mib);
  CHECK(heap.allocate(50 * mib, &streams[1]) != nullptr);
}

TEST_CASE(
    "cuda memory: where a usual segment does not fit, one of just the bytes, or a block kept for others") {
  FakeDevice device;
  device.limit = mib;
  SegmentHeap heap = device.heap();
  CHECK(heap.allocate(8320, &streams[0]) == nullptr);
  Block* tight = heap.allocate_tightly(8320, &streams[0]);
  REQUIRE(tight != nullptr);
  CHECK(device.held == 8704);
  CHECK(tight->bytes == 8704);
  heap.free(tight);
  CHECK(heap.release_free_segments() == 8704);

  device.limit = 40 * mib;
  Block* large = heap.allocate(40 * mib, &streams[0]);
  heap.free(large);
  CHECK(heap.largest_free_of(&streams[0]) == 40 * mib);
  CHECK(heap.largest_free_of(&streams[1]) == 0);
  CHECK(heap.allocate(1000, &streams[0]) == nullptr);  // not from large blocks, while there is a choice
  Block* small = heap.allocate_tightly(1000, &streams[0]);
  REQUIRE(small != nullptr);
  CHECK(small->bytes == 1024);
  CHECK(heap.allocate_tightly(1000, &streams[1]) == nullptr);
  heap.free(small);
  CHECK(heap.largest_free() == 40 * mib);
  CHECK(heap.release_free_segments() == 40 * mib);
  CHECK(device.held == 0);
}

TEST_CASE("cuda memory: 20,000 random requests never overlap, and all bytes come back") {
  FakeDevice device;
  device.limit = int64_t{2} << 30;
  SegmentHeap heap = device.heap();
  std::mt19937_64 random(7);
  std::map<char*, Block*> used;
  for (int i = 0; i < 20000; ++i) {
    if (used.size() > 60 || (!used.empty() && random() % 2 == 0)) {
      auto at = used.begin();
      std::advance(at, random() % used.size());
      REQUIRE(heap.find(at->first) == at->second);
      heap.free(at->second);
      used.erase(at);
      continue;
    }
    const int64_t bytes = static_cast<int64_t>(1 + random() % (int64_t{1} << (4 + random() % 20)));
    Block* block = heap.allocate(bytes, &streams[random() % 2]);
    REQUIRE(block != nullptr);
    REQUIRE(block->bytes >= bytes);
    REQUIRE(reinterpret_cast<uintptr_t>(block->address) % SegmentHeap::alignment == 0);
    const auto after = used.lower_bound(block->address);
    if (after != used.end()) REQUIRE(block->address + block->bytes <= after->first);
    if (after != used.begin())
      REQUIRE(std::prev(after)->first + std::prev(after)->second->bytes <= block->address);
    used[block->address] = block;
  }
  for (const auto& [address, block] : used) heap.free(block);
  const int64_t reserved = heap.reserved();
  CHECK(heap.release_free_segments() == reserved);
  CHECK(device.held == 0);
  CHECK(heap.reserved() == 0);
}
