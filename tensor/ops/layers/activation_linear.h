#pragma once

#include "tensor/arguments/activation_linear.h"

namespace tessera {

/// "gelu", "gelu_tanh", "relu" or "silu".
const char* to_string(Activation activation);

namespace ops {

/// f(x).
Tensor activation(Activation f, const Tensor& x);

/// y = f(x) W^T + b: x (..., in), weight (out, in), bias (out) or undefined; y (..., out). f(x) is computed
/// for a block of rows at a time, while the block is in the second-level cache, and not stored whole. It is
/// stored during the call in bf16 and f16, and on the CPU for threads that do not share such blocks evenly.
/// Throws as `linear`.
Tensor activation_linear(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// Whether the gradient of x may be written over x itself: where it is computed block by block, each from the
/// same block of x. `dweight` is the destination of the weight's gradient, undefined for none.
bool activation_linear_overwrites(const Tensor& x, const Tensor& weight, const Tensor& dweight);

/// dx = f'(x) (dy W) and dW = dy^T f(x), from x alone: f(x) is recomputed, block by block or stored as in the
/// forward, together with f'(x). Throws as `linear`, and ValueError when a gradient overlaps an operand or
/// the other gradient; the gradient of x may be x where `activation_linear_overwrites`.
void activation_linear_backward(Activation f, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const ActivationLinearGradients& out);

}  // namespace ops
}  // namespace tessera
