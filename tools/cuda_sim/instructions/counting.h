// Counting of operations: one addition per instruction of a warp.
#pragma once

#include "tools/cuda_sim/checks/counters.h"
#include "tools/cuda_sim/machine/block.h"
#include "tools/cuda_sim/machine/warp.h"

namespace tessera::cuda_sim {

/// Adds `per_lane` for each active lane.
template <uint64_t KernelCounters::*counter>
void count_lanes(Warp& warp, uint64_t per_lane = 1) {
  warp.block().counters().*counter += per_lane * static_cast<uint64_t>(warp.active_count());
}

}  // namespace tessera::cuda_sim
