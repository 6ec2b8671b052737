#include "autograd/functions/elementwise/activation.h"

#include <numbers>

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/record.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"

namespace tessera {
namespace {

using V = const Variable&;
using Raw = Tensor (*)(const Tensor& x, const Tensor& dy);
using Backward = Variable (*)(V x, V dy);

/// f(x), which saves x: dx = backward(x, dy).
Variable saving_input(const char* name, V x, Tensor result, Backward backward) {
  return record(name, std::move(result), {x}, saved(x),
                [backward](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  return {backward(s[0], dy[0])};
                });
}

/// f(x), which saves its output: dx = backward(y, dy).
Variable saving_output(const char* name, V x, Tensor result, Backward backward) {
  return record(name, std::move(result), {x}, saved(saved_output(0)),
                [backward](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  return {backward(s[0], dy[0])};
                });
}

/// dy f'(x), linear in dy: the gradient of dy is the function itself; that of x needs curvature(x) = f''(x),
/// composed of differentiable functions.
template <class Curvature>
Variable derivative_of(const char* name, Raw raw, Backward self, V x, V dy, Curvature curvature) {
  return record(name, raw(x.value(), dy.value()), {x, dy}, saved(x, saved_if(x.requires_grad(), dy)),
                [self, curvature](Saved& s, const Incoming& g, const Wanted& wanted) -> Gradients {
                  return {wanted[0] ? g[0] * s[1] * curvature(s[0]) : Variable(),
                          wanted[1] ? self(s[0], g[0]) : Variable()};
                });
}

}  // namespace

Variable relu(V x) {
  return saving_input("relu", x, ops::relu(x.value()), relu_backward);
}
Variable relu_backward(V x, V dy) {
  return derivative_of("relu_backward", ops::relu_backward, relu_backward, x, dy,
                       [](V a) { return a * 0.0; });
}

Variable gelu(V x) {
  return saving_input("gelu", x, ops::gelu(x.value()), gelu_backward);
}
Variable gelu_backward(V x, V dy) {
  // gelu' = Phi + x phi, gelu'' = phi (2 - x^2), phi(x) = exp(-x^2 / 2) / sqrt(2 pi).
  return derivative_of("gelu_backward", ops::gelu_backward, gelu_backward, x, dy, [](V a) {
    constexpr double inv_sqrt_2pi = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    return exp(square(a) * -0.5) * (2.0 - square(a)) * inv_sqrt_2pi;
  });
}

Variable gelu_tanh(V x) {
  return saving_input("gelu_tanh", x, ops::gelu_tanh(x.value()), gelu_tanh_backward);
}
Variable gelu_tanh_backward(V x, V dy) {
  // x (1 + t) / 2 with t = tanh(u), u = k (x + c x^3): f'' = (1 - t^2) (u' + x (u'' / 2 - t u'^2)).
  return derivative_of("gelu_tanh_backward", ops::gelu_tanh_backward, gelu_tanh_backward, x, dy, [](V a) {
    constexpr double k = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, c = 0.044715;
    const Variable t = tanh((a + a * a * a * c) * k);
    const Variable u1 = (1.0 + square(a) * (3 * c)) * k;
    return (1.0 - square(t)) * (u1 + a * (a * (3 * c * k) - t * square(u1)));
  });
}

Variable silu(V x) {
  return saving_input("silu", x, ops::silu(x.value()), silu_backward);
}
Variable silu_backward(V x, V dy) {
  return derivative_of("silu_backward", ops::silu_backward, silu_backward, x, dy, [](V a) {
    const Variable s = sigmoid(a);
    return s * (1.0 - s) * (2.0 + a * (1.0 - s * 2.0));
  });
}

Variable softplus(V x) {
  if (autocast::widens(x)) [[unlikely]]
    return softplus(autocast::wide(x));
  return saving_input("softplus", x, ops::softplus(x.value()), softplus_backward);
}
Variable softplus_backward(V x, V dy) {
  return derivative_of("softplus_backward", ops::softplus_backward, softplus_backward, x, dy, [](V a) {
    const Variable s = sigmoid(a);
    return s * (1.0 - s);
  });
}

Variable tanh(V x) {
  return saving_output("tanh", x, ops::tanh(x.value()), tanh_backward);
}
Variable tanh_backward(V y, V dy) {  // dy (1 - y^2)
  return derivative_of("tanh_backward", ops::tanh_backward, tanh_backward, y, dy,
                       [](V a) { return a * -2.0; });
}

Variable sigmoid(V x) {
  return saving_output("sigmoid", x, ops::sigmoid(x.value()), sigmoid_backward);
}
Variable sigmoid_backward(V y, V dy) {  // dy y (1 - y)
  return derivative_of("sigmoid_backward", ops::sigmoid_backward, sigmoid_backward, y, dy,
                       [](V a) { return 1.0 - a * 2.0; });
}

}  // namespace tessera
