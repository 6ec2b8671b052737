// What cp.async and mbarrier share.
#pragma once

#include "tools/cuda_sim/machine/decode_context.h"
#include "tools/cuda_sim/machine/warp.h"

namespace tessera::cuda_sim {

/// Moves the bytes of all copies that the warp has issued.
void finish_all_copies(Warp& warp);

/// cp.async.mbarrier.arrive.
void decode_copy_arrival(DecodeContext& context);

}  // namespace tessera::cuda_sim
