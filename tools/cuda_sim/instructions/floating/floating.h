// Decoders of the f32 and f64 forms of opcodes that other types have too.
#pragma once

#include "tools/cuda_sim/machine/decode_context.h"

namespace tessera::cuda_sim::floating {

void decode_add(DecodeContext& context);
void decode_subtract(DecodeContext& context);
void decode_multiply(DecodeContext& context);
void decode_fused_multiply_add(DecodeContext& context);
void decode_divide(DecodeContext& context);
void decode_absolute(DecodeContext& context);
void decode_negate(DecodeContext& context);
void decode_minimum(DecodeContext& context);
void decode_maximum(DecodeContext& context);
void decode_exponential(DecodeContext& context);
void decode_tanh(DecodeContext& context);

}  // namespace tessera::cuda_sim::floating
