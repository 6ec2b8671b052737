#pragma once  // internal

#include "tensor/arguments/rotary_call.h"

namespace tessera::kernels::cuda {

/// Angles, cosines and sines are computed in f64, on the device.
void rotary(const ops::RotaryCall& call);

}  // namespace tessera::kernels::cuda
