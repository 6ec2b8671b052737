// Order among the lanes of one warp.
#pragma once

#include <cstdint>

#include "tools/cuda_sim/machine/warp.h"

namespace tessera::cuda_sim {

/// Whether all lanes of `warp` met at some point after `tick`, a value of the warp's own clock. bar.warp.sync
/// of fewer lanes is recorded in `Warp::partial_syncs`; all other ends of a tick are meetings of the whole
/// warp.
inline bool all_lanes_met_since(const Warp& warp, uint32_t tick) {
  const uint32_t ended = warp.clock[warp.number()] - tick;
  if (warp.partial_syncs.empty()) return ended != 0;
  uint32_t partial = 0;
  for (auto sync = warp.partial_syncs.rbegin(); sync != warp.partial_syncs.rend() && sync->tick >= tick;
       ++sync)
    ++partial;
  return ended > partial;
}

/// Lanes that come after what each lane of `before` did in `tick`, by chains of partial meetings.
inline LaneMask lanes_after(const Warp& warp, LaneMask before, uint32_t tick) {
  LaneMask result = all_lanes;
  for (LaneMask left = before; left != 0; left &= left - 1) {
    LaneMask reached = left & (~left + 1);
    for (const Warp::PartialSync& sync : warp.partial_syncs)
      if (sync.tick >= tick && (sync.lanes & reached) != 0) reached |= sync.lanes;
    result &= reached;
  }
  return result;
}

}  // namespace tessera::cuda_sim
