// Instructions that the machine itself carries out: jumps, ends, calls of the device's own
// functions.
#pragma once

#include "tools/cuda_sim/machine/decode/statement_context.h"

namespace tessera::cuda_sim {

/// Decodes a statement of control flow; false for any other one.
bool decode_control_flow(StatementContext& context);

}  // namespace tessera::cuda_sim
