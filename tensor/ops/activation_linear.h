#pragma once

#include "tensor/tensor.h"

namespace tessera {

/// An activation function that a linear layer applies to its input as it reads it.
enum class Activation : uint8_t { gelu, gelu_tanh, relu, silu };

/// "gelu", "gelu_tanh", "relu" or "silu".
const char* to_string(Activation activation);

namespace ops {

/// f(x).
Tensor activation(Activation f, const Tensor& x);

/// y = f(x) W^T + b: x (..., in), weight (out, in), bias (out) or undefined; y (..., out). f(x) is made for a
/// block of rows at a time, while the block is in the second-level cache, and never stored whole (bf16 and
/// f16: stored for the length of the call). Throws as `linear`.
Tensor activation_linear(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// Where the gradients of `activation_linear` go; an undefined one is not computed.
struct ActivationLinearGradients {
  Tensor x;       ///< x's shape and dtype, contiguous; x itself if `activation_linear_overwrites`
  Tensor weight;  ///< the weight's shape, its dtype or f32
  bool add_to_weight = false;  ///< add to what `weight` holds
};

/// Whether the gradient of x may be written over x itself: where it is made piece by piece, each from the
/// piece of x in its place. `dweight` is where the weight's gradient goes, undefined for none.
bool activation_linear_overwrites(const Tensor& x, const Tensor& weight, const Tensor& dweight);

/// dx = f'(x) (dy W) and dW = dy^T f(x), from x alone: f(x) is made again, block by block, beside f'(x).
/// Throws as `linear`, and ValueError when a gradient lies on memory of an operand, but for the one of x as
/// said above, or of the other gradient.
void activation_linear_backward(Activation f, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const ActivationLinearGradients& out);

}  // namespace ops
}  // namespace tessera
