#pragma once

#include <mutex>

#include "tensor/memory/block_heap.h"

namespace tessera {

/// What a caching allocator has done so far.
struct CpuAllocatorStatistics {
  int64_t system_allocations =
      0;                  ///< times memory was asked of the system; constant in a steady training step
  int64_t reserved = 0;   ///< bytes taken from the system and not given back
  int64_t cached = 0;     ///< of these, bytes that wait for reuse
  int64_t most_used = 0;  ///< the most bytes that were ever asked for and not yet given back
};

/// Memory that is kept for reuse when it is given back, within a bound: what is taken from the system is
/// never more than 1.28 times the most that was ever used at once (or 2 MiB above that), where blocks of 128
/// KiB or more are concerned; beyond it pages that no block uses are given back. Thread-safe.
class CachingAllocator {
 public:
  /// `range_bytes`: addresses to reserve at a time.
  explicit CachingAllocator(int64_t range_bytes) : heap_(range_bytes) {}

  /// `nbytes` of uninitialised memory, 64-byte aligned. Throws OutOfMemoryError when the system has none.
  void* take(int64_t nbytes);
  /// Takes a block back; `nbytes` as it was asked for.
  void give(void* block, int64_t nbytes) noexcept;
  /// Gives the pages that no block uses back to the system.
  void empty() noexcept;
  CpuAllocatorStatistics statistics();

  /// For a fork: a lock that another thread holds then would stay locked in the child for good.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
  BlockHeap heap_;
  int64_t used_ = 0, most_used_ = 0;
};

}  // namespace tessera
