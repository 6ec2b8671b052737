// All opcodes.
#pragma once

#include <span>

#include "tools/cuda_sim/machine/decode_context.h"

namespace tessera::cuda_sim {

/// The decoders of all instructions, by the name of the opcode.
std::span<const OpcodeRow> opcode_rows();

}  // namespace tessera::cuda_sim
