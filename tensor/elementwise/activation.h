#pragma once  // internal

#include "tensor/elementwise/arithmetic.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/gelu.h"
#include "tensor/elementwise/hyperbolic.h"
#include "tensor/elementwise/log.h"

/// Activation functions of neural networks and their derivatives (times the gradient dy of the output).
TESSERA_ELEMENTWISE_BEGIN

/// log(1 + e^x), computed as max(x, 0) + log1p(e^-|x|), which cannot overflow.
template <class T>
TESSERA_ELEMENT T softplus(T x) {
  return relu(x) + log1p(exp(-abs(x)));
}

/// x sigmoid(x) (Elfwing et al. 2018, "swish").
template <class T>
TESSERA_ELEMENT T silu(T x) {
  return x / (T(1) + exp(-x));
}

/// The argument of gelu_tanh's tanh, doubled: 2 sqrt(2/pi) (x + 0.044715 x^3).
template <class T>
TESSERA_ELEMENT T gelu_tanh_argument(T x) {
  return x * fma(x * x, T(1.5957691216057307117597 * 0.044715), T(1.5957691216057307117597));
}

/// 0.5 x (1 + tanh(u)), the approximation of GELU in GPT-2. Since 0.5 (1 + tanh(u)) = sigmoid(2 u), it costs
/// one exponential and one division.
template <class T>
TESSERA_ELEMENT T gelu_tanh(T x) {
  return x / (T(1) + exp(-gelu_tanh_argument(x)));
}

/// dy where x > 0.
template <class T>
TESSERA_ELEMENT T relu_backward(T x, T dy) {
  return x > T(0) ? dy : T(0);
}

/// dy y (1 - y), from the output y = sigmoid(x).
template <class T>
TESSERA_ELEMENT T sigmoid_backward(T y, T dy) {
  return dy * y * (T(1) - y);
}

/// dy (1 - y^2), from the output y = tanh(x).
template <class T>
TESSERA_ELEMENT T tanh_backward(T y, T dy) {
  return dy * (T(1) - y * y);
}

/// dy s (1 + x (1 - s)), s = sigmoid(x).
template <class T>
TESSERA_ELEMENT T silu_backward(T x, T dy) {
  const T s = sigmoid(x);
  return dy * s * fma(x, T(1) - s, T(1));
}

/// dy (s + x s (1 - s) u'), s = sigmoid(u), u = gelu_tanh_argument(x).
template <class T>
TESSERA_ELEMENT T gelu_tanh_backward(T x, T dy) {
  const T bounded = abs(x) > T(100) ? with_sign_of(T(100), x) : x;  // s is 0 or 1 there; keeps x^2 finite
  const T s = sigmoid(gelu_tanh_argument(bounded));
  const T slope =
      fma(bounded * bounded, T(3 * 1.5957691216057307117597 * 0.044715), T(1.5957691216057307117597));
  return dy * fma(bounded * slope, s * (T(1) - s), s);
}

/// dy sigmoid(x).
template <class T>
TESSERA_ELEMENT T softplus_backward(T x, T dy) {
  return dy * sigmoid(x);
}

TESSERA_ELEMENTWISE_END
