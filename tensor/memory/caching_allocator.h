#pragma once  // internal

#include <mutex>

#include "tensor/memory/block_heap.h"

namespace tessera {

/// What a caching allocator has done so far.
struct CpuAllocatorStatistics {
  int64_t system_allocations = 0;  ///< allocations from the system; constant in a steady training step
  int64_t reserved = 0;            ///< bytes taken from the system and not given back
  int64_t cached = 0;              ///< of these, free bytes kept for reuse
  int64_t peak_used = 0;           ///< the most bytes that were in use at once, as requested
};

/// Keeps memory for reuse when it is given back, within a bound: for blocks of 128 KiB or more, it holds at
/// most 1.28 times the most bytes that were in use at once (or 2 MiB above that). Beyond the bound, pages
/// that no block uses are given back to the system. Thread-safe.
class CachingAllocator {
 public:
  /// `range_bytes`: addresses to reserve at a time.
  explicit CachingAllocator(int64_t range_bytes) : heap_(range_bytes) {}

  /// `nbytes` of uninitialised memory, 64-byte aligned. Throws OutOfMemoryError when the system has none.
  void* allocate(int64_t nbytes);
  /// Frees a block; `nbytes` as in `allocate`.
  void deallocate(void* block, int64_t nbytes) noexcept;
  /// Gives the pages that no block uses back to the system.
  void empty() noexcept;
  /// What it has done so far, and what it holds now.
  CpuAllocatorStatistics statistics();

  /// For a fork: a lock that another thread holds then would stay locked in the child.
  /// @{
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  /// @}

 private:
  std::mutex mutex_;
  BlockHeap heap_;
  int64_t used_ = 0, peak_used_ = 0;
};

}  // namespace tessera
