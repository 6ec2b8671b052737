#include "tensor/memory/caching_allocator.h"

#include <algorithm>

#include "tensor/error.h"

namespace tessera {
namespace {

/// What may be held at that peak of use: a little below 1.3 times the peak, since a block is rounded up to
/// its size class.
int64_t max_reserved(int64_t peak_used) {
  return peak_used + std::max(peak_used / 100 * 28, PageRange::growth);
}

}  // namespace

void* CachingAllocator::allocate(int64_t nbytes) {
  const std::lock_guard lock(mutex_);
  const int64_t used = used_ + std::min(nbytes, BlockHeap::max_bytes), peak_used = std::max(peak_used_, used);
  void* const block = heap_.allocate(nbytes, max_reserved(peak_used));
  require<OutOfMemoryError>(block != nullptr, "cpu: the system has no ", nbytes, " bytes left (", used_,
                            " bytes are in use)");
  used_ = used;
  peak_used_ = peak_used;
  return block;
}

void CachingAllocator::deallocate(void* block, int64_t nbytes) noexcept {
  const std::lock_guard lock(mutex_);
  heap_.deallocate(block);
  used_ -= nbytes;
}

void CachingAllocator::empty() noexcept {
  const std::lock_guard lock(mutex_);
  heap_.trim(0);
}

CpuAllocatorStatistics CachingAllocator::statistics() {
  const std::lock_guard lock(mutex_);
  return {heap_.system_allocations(), heap_.reserved(), heap_.reserved() - used_, peak_used_};
}

}  // namespace tessera
