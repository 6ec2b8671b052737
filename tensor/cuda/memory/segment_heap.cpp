#include "tensor/cuda/memory/segment_heap.h"

#include <algorithm>

namespace tessera::cuda_runtime {
namespace {

constexpr int64_t mib = 1 << 20;
constexpr int64_t small_request = mib, small_segment = 2 * mib;
constexpr int64_t medium_request = 10 * mib, medium_segment = 20 * mib;

constexpr int64_t rounded(int64_t bytes, int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

int64_t size_of(int64_t bytes) {
  return rounded(std::max<int64_t>(bytes, 1), SegmentHeap::alignment);
}

int64_t segment_bytes(int64_t bytes) {
  if (bytes <= small_request) return small_segment;
  if (bytes < medium_request) return medium_segment;
  return rounded(bytes, 2 * mib);
}

}  // namespace

SegmentHeap::~SegmentHeap() {
  for (auto& [address, block] : used_) {  // their memory stays with the device until the process ends
    (void)address;
    block->is_used = false;
  }
  std::set<Block*> blocks;
  for (auto& [key, pool] : pools_) blocks.insert(pool.begin(), pool.end());
  for (auto& [address, block] : used_) blocks.insert(block);
  for (Block* block : blocks) delete block;
}

Block* SegmentHeap::allocate(int64_t bytes, const void* stream) {
  const int64_t size = size_of(bytes);
  const bool is_small = size <= small_request;
  Block* block = take_free(size, stream, is_small);
  if (block == nullptr) block = take_segment(segment_bytes(size), stream, is_small);
  return use(block, size, bytes);
}

Block* SegmentHeap::allocate_tightly(int64_t bytes, const void* stream) {
  const int64_t size = size_of(bytes);
  const bool is_small = size <= small_request;
  Block* block = take_segment(size, stream, is_small);
  if (block == nullptr) block = take_free(size, stream, !is_small);
  return use(block, size, bytes);
}

Block* SegmentHeap::use(Block* block, int64_t size, int64_t requested) {
  if (block == nullptr) return nullptr;
  split(block, size);
  block->is_used = true;
  block->requested = requested;
  used_[block->address] = block;
  return block;
}

Block* SegmentHeap::take_free(int64_t bytes, const void* stream, bool is_small) {
  FreeList& pool = pools_[{stream, is_small}];
  Block wanted;
  wanted.bytes = bytes;
  const auto found = pool.lower_bound(&wanted);
  if (found == pool.end()) return nullptr;
  Block* block = *found;
  pool.erase(found);
  return block;
}

Block* SegmentHeap::take_segment(int64_t size, const void* stream, bool is_small) {
  void* address = take_(size);
  if (address == nullptr) return nullptr;
  reserved_ += size;
  ++segments_taken_;
  auto* block = new Block;
  block->address = static_cast<char*>(address);
  block->bytes = size;
  block->stream = stream;
  block->is_small = is_small;
  return block;
}

void SegmentHeap::split(Block* block, int64_t bytes) {
  const int64_t rest = block->bytes - bytes;
  // A rest that no request of its kind can use stays a part of the block.
  if (rest < (block->is_small ? alignment : small_request + 1)) return;
  auto* tail = new Block(*block);
  tail->address += bytes;
  tail->bytes = rest;
  tail->before = block;
  if (tail->after != nullptr) tail->after->before = tail;
  block->after = tail;
  block->bytes = bytes;
  pool_of(*tail).insert(tail);
}

void SegmentHeap::join(Block* left, Block* right) {
  left->bytes += right->bytes;
  left->after = right->after;
  if (left->after != nullptr) left->after->before = left;
  delete right;
}

void SegmentHeap::free(Block* block) {
  used_.erase(block->address);
  block->is_used = false;
  FreeList& pool = pool_of(*block);
  if (Block* after = block->after; after != nullptr && !after->is_used) {
    pool.erase(after);
    join(block, after);
  }
  if (Block* before = block->before; before != nullptr && !before->is_used) {
    pool.erase(before);
    join(before, block);
    block = before;
  }
  pool.insert(block);
}

Block* SegmentHeap::find(const void* address) const {
  const auto found = used_.find(address);
  return found == used_.end() ? nullptr : found->second;
}

int64_t SegmentHeap::release_free_segments() {
  int64_t released = 0;
  for (auto& [key, pool] : pools_) {
    if (kept_streams_.contains(key.first)) continue;
    for (auto it = pool.begin(); it != pool.end();) {
      Block* block = *it;
      if (block->before != nullptr || block->after != nullptr) {
        ++it;
        continue;
      }
      it = pool.erase(it);
      give_(block->address, block->bytes);
      released += block->bytes;
      delete block;
    }
  }
  reserved_ -= released;
  return released;
}

void SegmentHeap::keep_segments_of(const void* stream, bool keeps) {
  if (keeps)
    kept_streams_.insert(stream);
  else
    kept_streams_.erase(stream);
}

int64_t SegmentHeap::largest_free() const {
  int64_t largest = 0;
  for (const auto& [key, pool] : pools_)
    if (!pool.empty() && !kept_streams_.contains(key.first))
      largest = std::max(largest, (*pool.rbegin())->bytes);
  return largest;
}

int64_t SegmentHeap::largest_free_of(const void* stream) const {
  int64_t largest = 0;
  for (const bool is_small : {false, true}) {
    const auto pool = pools_.find({stream, is_small});
    if (pool != pools_.end() && !pool->second.empty())
      largest = std::max(largest, (*pool->second.rbegin())->bytes);
  }
  return largest;
}

}  // namespace tessera::cuda_runtime
