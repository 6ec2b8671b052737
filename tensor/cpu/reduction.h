#pragma once  // internal

#include "tensor/arguments/reduction.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// Reduces x to `out`, which has x's rank, extent 1 along reduced dimensions and x's extents along the
/// others. `parameter`: see ops::Reduction. Any strides.
void reduce(ops::Reduction kind, double parameter, const Tensor& x, const Tensor& out);

}  // namespace tessera::kernels::cpu
