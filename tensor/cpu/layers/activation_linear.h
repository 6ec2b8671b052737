#pragma once  // internal

#include "tensor/arguments/activation_linear.h"

namespace tessera::kernels::cpu {

// Matrices are f32 or f64: x (rows, in), weight (out, in), dy and out (rows, out), all contiguous.

/// out = f(x) weight^T + bias.
void activation_linear(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& out);
/// Fills the tensors of `out` that are defined.
void activation_linear_backward(Activation f, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const ops::ActivationLinearGradients& out);

/// y = f(x) and dx = f'(x) dy in one pass, for an f with `has_value_with_gradient`: contiguous tensors of one
/// floating dtype; dx may be dy.
void activation_gradient(Activation f, const Tensor& x, const Tensor& dy, const Tensor& y, const Tensor& dx);

}  // namespace tessera::kernels::cpu
