#pragma once

#include <cstdint>

namespace tessera {

/// Bytes to which every CPU storage is aligned: a cache line, and the widest vector.
inline constexpr int64_t cpu_alignment = 64;

/// What the caching allocator has done so far, in this process.
struct CpuAllocatorStatistics {
  int64_t system_allocations =
      0;                 ///< times memory was asked of the system; constant in a steady training step
  int64_t reserved = 0;  ///< bytes taken from the system and not given back
  int64_t cached = 0;    ///< of these, bytes that wait for reuse
};

/// `nbytes` of uninitialised memory, 64-byte aligned, from the cache where it has a block of that size class
/// (at most 1/8 larger). Throws OutOfMemoryError when the system has none, after giving back what was cached.
/// Thread-safe.
void* cpu_allocate(int64_t nbytes);
/// Returns a block to the cache; `nbytes` as it was asked for.
void cpu_free(void* block, int64_t nbytes) noexcept;
/// Gives all cached blocks back to the system.
void cpu_empty_cache() noexcept;
CpuAllocatorStatistics cpu_allocator_statistics();

}  // namespace tessera
