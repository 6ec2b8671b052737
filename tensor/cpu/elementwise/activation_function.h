#pragma once  // internal

#include "tensor/arguments/activation_function.h"
#include "tensor/tensor.h"

/// Activation functions with parameters on CPU tensors of any strides; bf16 and f16 are computed in f32.
/// Inputs have been expanded to the output's shape.
namespace tessera::kernels::cpu {

/// y = f(x).
void activation(const ActivationFunction& f, const Tensor& x, const Tensor& y);
/// dx = dy f'(x).
void activation_backward(const ActivationFunction& f, const Tensor& x, const Tensor& dy, const Tensor& dx);

/// y = x where x is above 0, else slope x.
void prelu(const Tensor& x, const Tensor& slope, const Tensor& y);
/// dx = dy where x is above 0, else slope dy.
void prelu_backward(const Tensor& x, const Tensor& slope, const Tensor& dy, const Tensor& dx);
/// out = 0 where x is above 0, else x dy.
void prelu_slope_backward(const Tensor& x, const Tensor& dy, const Tensor& out);

}  // namespace tessera::kernels::cpu
