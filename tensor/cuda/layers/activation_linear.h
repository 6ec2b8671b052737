#pragma once  // internal

#include "tensor/arguments/activation_linear.h"

namespace tessera::kernels::cuda {

/// y = f(x) and dx = f'(x) dy in one pass, with the bits of the two operations: tensors of one shape and
/// floating dtype; dx may be dy.
void activation_gradient(Activation f, const Tensor& x, const Tensor& dy, const Tensor& y, const Tensor& dx);

}  // namespace tessera::kernels::cuda
