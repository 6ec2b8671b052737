// Fills: cudaMemset in up to three dimensions, of one, two or four bytes.
#pragma once

#include "tools/cuda_sim/runtime/graph/node_parameters.h"
#include "tools/cuda_sim/runtime/state/call.h"

namespace tessera::cuda_sim {

cudaError_t check_fill(Call& call, const FillParameters& fill);
/// Issues or captures it. The host does not wait, as it does not on a card, but for pinned memory.
cudaError_t issue_fill(Call& call, Stream& stream, FillParameters fill, bool is_asynchronous);
void run_fill(Runtime& runtime, const FillParameters& fill, Operation operation);

}  // namespace tessera::cuda_sim
