#pragma once

#include "autograd/functions/elementwise/unary.h"

/// Activation functions, of which relu, tanh and sigmoid are declared with the unary functions; relu saves x,
/// tanh and sigmoid their result. Each derivative is fused in one pass (`gelu_backward(x, dy)` and so on) and
/// is itself differentiable.
namespace tessera {

/// x Phi(x), Phi the normal distribution function, by erf (Hendrycks & Gimpel 2016). Saves x.
Variable gelu(const Variable& x);
/// GELU by its tanh approximation. Saves x.
Variable gelu_tanh(const Variable& x);
/// x sigmoid(x). Saves x.
Variable silu(const Variable& x);
/// log(1 + exp(x)). Saves x.
Variable softplus(const Variable& x);

/// dy times the derivative at x.
/// @{
Variable relu_backward(const Variable& x, const Variable& dy);
Variable gelu_backward(const Variable& x, const Variable& dy);
Variable gelu_tanh_backward(const Variable& x, const Variable& dy);
Variable silu_backward(const Variable& x, const Variable& dy);
Variable softplus_backward(const Variable& x, const Variable& dy);
/// @}
/// dy times the derivative where the function's result is y.
/// @{
Variable tanh_backward(const Variable& y, const Variable& dy);
Variable sigmoid_backward(const Variable& y, const Variable& dy);
/// @}

}  // namespace tessera
