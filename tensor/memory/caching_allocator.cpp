#include "tensor/memory/caching_allocator.h"

#include <algorithm>

#include "tensor/error.h"

namespace tessera {
namespace {

/// Of the most ever used, what may be held beyond it: a little below the promised share, since a block is
/// rounded up to its size class.
int64_t most_reserved(int64_t most_used) {
  return most_used + std::max(most_used / 100 * 28, PageRange::growth);
}

}  // namespace

void* CachingAllocator::take(int64_t nbytes) {
  const std::lock_guard lock(mutex_);
  const int64_t used = used_ + std::min(nbytes, BlockHeap::most_bytes),
                most_used = std::max(most_used_, used);
  void* const block = heap_.take(nbytes, most_reserved(most_used));
  require<OutOfMemoryError>(block != nullptr, "cpu: the system has no ", nbytes, " bytes left (", used_,
                            " bytes are in use)");
  used_ = used;
  most_used_ = most_used;
  return block;
}

void CachingAllocator::give(void* block, int64_t nbytes) noexcept {
  const std::lock_guard lock(mutex_);
  heap_.give(block);
  used_ -= nbytes;
}

void CachingAllocator::empty() noexcept {
  const std::lock_guard lock(mutex_);
  heap_.trim(0);
}

CpuAllocatorStatistics CachingAllocator::statistics() {
  const std::lock_guard lock(mutex_);
  return {heap_.system_allocations(), heap_.reserved(), heap_.reserved() - used_, most_used_};
}

}  // namespace tessera
