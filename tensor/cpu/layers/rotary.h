#pragma once  // internal

#include "tensor/arguments/rotary_call.h"

namespace tessera::kernels::cpu {

/// Angles, cosines and sines are computed in f64.
void rotary(const ops::RotaryCall& call);

}  // namespace tessera::kernels::cpu
