#pragma once  // internal

#include "tensor/arguments/activation_function.h"
#include "tensor/arguments/special_function.h"
#include "tensor/tensor.h"

/// Activation functions with parameters and special functions on CUDA devices: the contract of the functions
/// of tensor/cpu/elementwise, and for every element the same bits.
namespace tessera::kernels::cuda {

void activation(const ActivationFunction& f, const Tensor& x, const Tensor& y);
void activation_backward(const ActivationFunction& f, const Tensor& x, const Tensor& dy, const Tensor& dx);
void prelu(const Tensor& x, const Tensor& slope, const Tensor& y);
void prelu_backward(const Tensor& x, const Tensor& slope, const Tensor& dy, const Tensor& dx);
void prelu_slope_backward(const Tensor& x, const Tensor& dy, const Tensor& out);

void special_function(SpecialFunction f, int64_t order, const Tensor& x, const Tensor& y);
void special_function_of_two(SpecialFunctionOfTwo f, const Tensor& a, const Tensor& b, const Tensor& y);

}  // namespace tessera::kernels::cuda
