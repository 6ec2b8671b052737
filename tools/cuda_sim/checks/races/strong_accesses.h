// The strong accesses of a warp, on their way to LaunchOrder.
#pragma once

#include "tools/cuda_sim/checks/races/access_parts.h"
#include "tools/cuda_sim/checks/races/launch_order.h"
#include "tools/cuda_sim/checks/races/thread_order.h"
#include "tools/cuda_sim/machine/program.h"

namespace tessera::cuda_sim {

/// Whether a kernel has an instruction that orders threads without a barrier: a fence, a release.
bool has_releases(const Program& program);

/// Before the cells are checked: what the access acquires.
void order_before(LaunchOrder& launch, ThreadOrder& block, const Warp& warp, const Access& access,
                  AccessKind kind, bool is_shared);
/// After: what it releases, so that it is itself part of that.
void order_after(LaunchOrder& launch, ThreadOrder& block, const Warp& warp, const Access& access,
                 AccessKind kind, bool is_shared);

/// Several lanes write the same bytes: the last one's write stays.
SetEntry last_lane(const AccessPart& part, uint32_t bytes);

}  // namespace tessera::cuda_sim
