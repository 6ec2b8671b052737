// Sectors and bank conflicts of one warp-wide access.
#pragma once

#include "tools/cuda_sim/checks/counters.h"
#include "tools/cuda_sim/machine/access.h"

namespace tessera::cuda_sim {

/// Bytes of a sector: what global memory moves at least.
inline constexpr uint32_t sector_bytes = 32;

/// Counts an access to global memory: sectors touched, and how few its distinct bytes would fill.
void count_global_access(KernelCounters& counters, const Access& access);

/// Counts an access to shared memory in wavefronts: 32 banks of 4 bytes serve each a word at a time. Accesses
/// of 8 bytes go by half warps, of 16 bytes by quarters, each a request of its own.
void count_shared_access(KernelCounters& counters, const Access& access);

}  // namespace tessera::cuda_sim
