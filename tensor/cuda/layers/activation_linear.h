#pragma once  // internal

#include "tensor/arguments/activation_linear.h"

/// A linear layer of f(x) on CUDA devices, with the contract of tensor/cpu/layers/activation_linear.h in
/// every floating dtype; the gradient of the weight may be f32 for half types.
namespace tessera::kernels::cuda {

void activation_linear(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& out);
void activation_linear_backward(Activation f, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const ops::ActivationLinearGradients& out);

/// y = f(x) and dx = f'(x) dy in one pass, with the bits of the two operations, for every f: tensors of one
/// shape and floating dtype; y or dx may be dy, and dx may be x.
void activation_gradient(Activation f, const Tensor& x, const Tensor& dy, const Tensor& y, const Tensor& dx);

}  // namespace tessera::kernels::cuda
