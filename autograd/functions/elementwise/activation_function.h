#pragma once

#include "autograd/variable.h"
#include "tensor/arguments/activation_function.h"

/// Activation functions with PyTorch's names and parameters, documented with those on Tensors in
/// tensor/composed/activations.h, with which they share their definitions. Each is one pass over memory and
/// saves x; its derivative is one pass too, and differentiable. `leaky_relu`, `elu`, `logsigmoid` and `mish`
/// are declared in autograd/functions/composed.h.
namespace tessera {

// clang-format off
/// As those on Tensors. `prelu`, and `rrelu` in training, save the slopes too.
/// @{
Variable selu(const Variable& x);
Variable celu(const Variable& x, double alpha = 1);
Variable hardswish(const Variable& x);
Variable hardsigmoid(const Variable& x);
Variable hardtanh(const Variable& x, double min = -1, double max = 1);
Variable relu6(const Variable& x);
Variable softplus(const Variable& x, double beta, double threshold = 20);
Variable softsign(const Variable& x);
Variable softshrink(const Variable& x, double lambda = 0.5);
Variable hardshrink(const Variable& x, double lambda = 0.5);
Variable tanhshrink(const Variable& x);
Variable threshold(const Variable& x, double threshold, double value);
Variable prelu(const Variable& x, const Variable& weight);
Variable rrelu(const Variable& x, double lower, double upper, bool training, uint64_t key);
Variable rrelu(const Variable& x, double lower = 1.0 / 8, double upper = 1.0 / 3);
Variable softmin(const Variable& x, int64_t dim = -1);
Variable gumbel_softmax(const Variable& x, double tau, bool hard, int64_t dim, uint64_t key);
/// @}

/// In place, as `relu_` (autograd/functions/elementwise/in_place.h).
/// @{
void leaky_relu_(const Variable& x, double slope = 0.01);
void elu_(const Variable& x, double alpha = 1);
void selu_(const Variable& x);
void celu_(const Variable& x, double alpha = 1);
void mish_(const Variable& x);
void hardswish_(const Variable& x);
void hardsigmoid_(const Variable& x);
void hardtanh_(const Variable& x, double min = -1, double max = 1);
void relu6_(const Variable& x);
void threshold_(const Variable& x, double threshold, double value);
void rrelu_(const Variable& x, double lower, double upper, bool training, uint64_t key);
void rrelu_(const Variable& x, double lower = 1.0 / 8, double upper = 1.0 / 3);
/// @}
// clang-format on

/// f(x), and dy f'(x), which is differentiable in x and dy.
/// @{
Variable activation(const ActivationFunction& f, const Variable& x);
Variable activation_backward(const ActivationFunction& f, const Variable& x, const Variable& dy);
/// @}

}  // namespace tessera
