#pragma once

#include <cstdint>

namespace tessera {

/// An activation function of one element, with up to three parameters: f(x; a, b, c). Its derivative is one
/// pass over x and the gradient (tensor/ops/elementwise/activation_function.h).
enum class ActivationKind : uint8_t {
  elu,          ///< a x for x > 0, else b (e^(c x) - 1)
  hardshrink,   ///< x where |x| > a, else 0
  hardsigmoid,  ///< x / 6 + 1/2 within [0, 1]
  hardswish,    ///< x hardsigmoid(x)
  hardtanh,     ///< x within [a, b]
  leaky_relu,   ///< x for x > 0, else a x
  logsigmoid,   ///< log(sigmoid(x))
  mish,         ///< x tanh(log(1 + e^x))
  softplus,     ///< log(1 + e^(a x)) / a, and x where a x > b
  softshrink,   ///< x - a for x > a, x + a for x < -a, else 0
  softsign,     ///< x / (1 + |x|)
  tanhshrink,   ///< x - tanh(x)
  threshold,    ///< x where x > a, else b
};

/// The name in errors and profiles: "hardtanh".
const char* name_of(ActivationKind kind);

/// An activation function with its parameters.
struct ActivationFunction {
  ActivationKind kind;  ///< which function
  double a = 0;         ///< its parameters, as the kind says
  double b = 0;         ///< the second one
  double c = 0;         ///< the third one
};

}  // namespace tessera
