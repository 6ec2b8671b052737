#pragma once  // internal

#include <cstdint>

#include "tensor/memory/caching_allocator.h"

namespace tessera {

/// Bytes to which every CPU storage is aligned: a cache line, and the widest vector.
inline constexpr int64_t cpu_alignment = 64;

/// `nbytes` of uninitialised memory, 64-byte aligned, from this process's caching allocator (null for 0
/// bytes). Throws OutOfMemoryError when the system has none. Thread-safe.
void* cpu_allocate(int64_t nbytes);
/// Returns a block to the cache; `nbytes` as in `cpu_allocate`.
void cpu_free(void* block, int64_t nbytes) noexcept;
/// Gives the pages that no block uses back to the system.
void cpu_empty_cache() noexcept;
/// The statistics of this process's caching allocator.
CpuAllocatorStatistics cpu_allocator_statistics();

}  // namespace tessera
