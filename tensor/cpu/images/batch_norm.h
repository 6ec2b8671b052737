#pragma once  // internal

#include "tensor/arguments/batch_norm.h"

namespace tessera::kernels::cpu {

using ops::BatchNormBackwardCall;
using ops::BatchNormCall;

/// Writes out.y where that is defined, and the statistics where the call has none.
void batch_norm(const BatchNormCall& call, const ops::BatchNormed& out);

/// Writes those gradients of `out` that are defined.
void batch_norm_backward(const BatchNormBackwardCall& call, const ops::BatchNormGradients& out);

}  // namespace tessera::kernels::cpu
