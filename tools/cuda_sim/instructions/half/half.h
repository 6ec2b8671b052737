// Decoders of the f16, bf16, f16x2 and bf16x2 forms of opcodes that other types have too.
#pragma once

#include "tools/cuda_sim/machine/decode_context.h"

namespace tessera::cuda_sim::half {

void decode_add(DecodeContext& context);
void decode_subtract(DecodeContext& context);
void decode_multiply(DecodeContext& context);
void decode_fused_multiply_add(DecodeContext& context);
void decode_absolute(DecodeContext& context);
void decode_negate(DecodeContext& context);
void decode_minimum(DecodeContext& context);
void decode_maximum(DecodeContext& context);
void decode_exponential(DecodeContext& context);
void decode_tanh(DecodeContext& context);

}  // namespace tessera::cuda_sim::half
