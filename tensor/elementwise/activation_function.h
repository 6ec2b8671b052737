#pragma once  // internal

#include "tensor/elementwise/arithmetic.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/hyperbolic.h"
#include "tensor/elementwise/log.h"

/// Activation functions with parameters (tensor/arguments/activation_function.h): the value at x, and the
/// gradient dy f'(x). The struct of a kind is `activation_` and its name. At a kink the derivative is
/// PyTorch's. NaN stays NaN in every value.
TESSERA_ELEMENTWISE_BEGIN

/// The parameters, in the type that is computed in.
template <class T>
struct ActivationParameters {
  T a, b, c;
};

struct activation_elu {
  template <class T>
  static TESSERA_ELEMENT T value(T x, ActivationParameters<T> p) {
    const T negative = p.b * expm1(p.c * minimum(x, T(0)));
    return x > T(0) ? p.a * x : negative;
  }
  template <class T>
  static TESSERA_ELEMENT T gradient(T x, T dy, ActivationParameters<T> p) {
    const T negative = p.b * p.c * exp(p.c * minimum(x, T(0)));
    return dy * (x > T(0) ? p.a : negative);
  }
};

struct activation_hardshrink {
  template <class T>
  static TESSERA_ELEMENT T value(T x, ActivationParameters<T> p) {
    return abs(x) <= p.a ? T(0) : x;
  }
  template <class T>
  static TESSERA_ELEMENT T gradient(T x, T dy, ActivationParameters<T> p) {
    return abs(x) <= p.a ? T(0) : dy;
  }
};

struct activation_hardsigmoid {
  template <class T>
  static TESSERA_ELEMENT T value(T x, ActivationParameters<T>) {
    return minimum(maximum(x + T(3), T(0)), T(6)) / T(6);
  }
  template <class T>
  static TESSERA_ELEMENT T gradient(T x, T dy, ActivationParameters<T>) {
    const T below_three = x < T(3) ? dy / T(6) : T(0);
    return x > static_cast<T>(-3) ? below_three : T(0);
  }
};

struct activation_hardswish {
  template <class T>
  static TESSERA_ELEMENT T value(T x, ActivationParameters<T>) {
    return x * minimum(maximum(x + T(3), T(0)), T(6)) / T(6);
  }
  template <class T>
  static TESSERA_ELEMENT T gradient(T x, T dy, ActivationParameters<T>) {
    const T below_three = x < T(3) ? dy * (x / T(3) + T(0.5)) : dy;
    return x <= static_cast<T>(-3) ? T(0) : below_three;
  }
};

struct activation_hardtanh {
  template <class T>
  static TESSERA_ELEMENT T value(T x, ActivationParameters<T> p) {
    return minimum(maximum(x, p.a), p.b);
  }
  template <class T>
  static TESSERA_ELEMENT T gradient(T x, T dy, ActivationParameters<T> p) {
    const T above_a = x <= p.a ? T(0) : dy;
    return x >= p.b ? T(0) : above_a;
  }
};

struct activation_leaky_relu {
  template <class T>
  static TESSERA_ELEMENT T value(T x, ActivationParameters<T> p) {
    return x > T(0) ? x : p.a * x;
  }
  template <class T>
  static TESSERA_ELEMENT T gradient(T x, T dy, ActivationParameters<T> p) {
    return x > T(0) ? dy : p.a * dy;
  }
};

struct activation_logsigmoid {
  template <class T>
  static TESSERA_ELEMENT T value(T x, ActivationParameters<T>) {
    return minimum(x, T(0)) - log1p(exp(-abs(x)));
  }
  template <class T>
  static TESSERA_ELEMENT T gradient(T x, T dy, ActivationParameters<T>) {
    return dy * sigmoid(-x);
  }
};

/// tanh(log(1 + e^x)) = n / (n + 2) with e = e^x and n = e (e + 2). From x = 40 on it is 1 in every type.
struct activation_mish {
  template <class T>
  static TESSERA_ELEMENT T value(T x, ActivationParameters<T>) {
    const T e = exp(minimum(x, T(40))), n = e * (e + T(2));
    return x * (n / (n + T(2)));
  }
  /// t + x sigmoid(x) (1 - t^2), where sigmoid(x) (1 - t^2) = 4 e (e + 1) / (n + 2)^2.
  template <class T>
  static TESSERA_ELEMENT T gradient(T x, T dy, ActivationParameters<T>) {
    const T bounded = minimum(x, T(40));
    const T e = exp(bounded), divisor = T(1) / fma(e, e + T(2), T(2));
    const T slope = T(4) * (e * divisor) * ((e + T(1)) * divisor);
    return dy * fma(bounded, slope, e * (e + T(2)) * divisor);
  }
};

struct activation_softplus {
  template <class T>
  static TESSERA_ELEMENT T value(T x, ActivationParameters<T> p) {
    const T scaled = p.a * x;
    const T smooth = (relu(scaled) + log1p(exp(-abs(scaled)))) / p.a;
    return scaled > p.b ? x : smooth;
  }
  template <class T>
  static TESSERA_ELEMENT T gradient(T x, T dy, ActivationParameters<T> p) {
    const T scaled = p.a * x;
    const T smooth = dy * sigmoid(scaled);
    return scaled > p.b ? dy : smooth;
  }
};

struct activation_softshrink {
  template <class T>
  static TESSERA_ELEMENT T value(T x, ActivationParameters<T> p) {
    const T moved = x > T(0) ? x - p.a : x + p.a;
    return abs(x) <= p.a ? T(0) : moved;
  }
  template <class T>
  static TESSERA_ELEMENT T gradient(T x, T dy, ActivationParameters<T> p) {
    return abs(x) <= p.a ? T(0) : dy;
  }
};

struct activation_softsign {
  template <class T>
  static TESSERA_ELEMENT T value(T x, ActivationParameters<T>) {
    return x / (T(1) + abs(x));
  }
  template <class T>
  static TESSERA_ELEMENT T gradient(T x, T dy, ActivationParameters<T>) {
    const T divisor = T(1) + abs(x);
    return dy / divisor / divisor;
  }
};

struct activation_tanhshrink {
  template <class T>
  static TESSERA_ELEMENT T value(T x, ActivationParameters<T>) {
    return x - tanh(x);
  }
  template <class T>
  static TESSERA_ELEMENT T gradient(T x, T dy, ActivationParameters<T>) {
    const T y = tanh(x);
    return dy * (y * y);
  }
};

struct activation_threshold {
  template <class T>
  static TESSERA_ELEMENT T value(T x, ActivationParameters<T> p) {
    return x <= p.a ? p.b : x;
  }
  template <class T>
  static TESSERA_ELEMENT T gradient(T x, T dy, ActivationParameters<T> p) {
    return x <= p.a ? T(0) : dy;
  }
};

TESSERA_ELEMENTWISE_END
