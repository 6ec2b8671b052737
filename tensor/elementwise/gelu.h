#pragma once  // internal

#include "tensor/elementwise/arithmetic.h"
#include "tensor/elementwise/erf.h"

/// GELU, x Phi(x) (Hendrycks and Gimpel 2016), and its derivative; Phi is the normal distribution's
/// cumulative function. In f32 both use the upper tail Q(a) = 1 - Phi(a) = exp(-a^2/2) R(a) with a = |x|:
/// small values keep their precision, and both need one exponential. Absolute errors in f32: 1e-7 max(1, |x|)
/// and 1.5e-7.
TESSERA_ELEMENTWISE_BEGIN

/// The a where exp(-a^2/2) = 2^-127, which counts as 0.
constexpr float gelu_limit = 13.268f;

// The functions of f32 are templates of F: a float, or a vector of floats that has the operations here.

/// a, or `limit` where a is larger; a NaN passes.
TESSERA_ELEMENT float at_most(float a, float limit) {
  return a > limit ? limit : a;
}
/// `positive` where x > 0, else `other`.
TESSERA_ELEMENT float where_positive(float x, float positive, float other) {
  return x > 0.0f ? positive : other;
}
/// 2^k for the integer k in the low bits of `shifted`.
TESSERA_ELEMENT float power_of_two(float shifted) {
  return from_bits((bits_of(shifted) << 23) + 0x3f800000u);
}

/// exp(-a^2/2) for 0 <= a <= gelu_limit.
template <class F>
TESSERA_ELEMENT F gaussian(F a) {
  const F magic(0x1.8p23f);                         // adding it leaves the nearest integer in the low bits
  const F y = a * a * F(-0.72134752044448170368f);  // log2(e) / 2
  const F shifted = y + magic, f = y - (shifted - magic);
  const F power = polynomial(f, 1.0f, 6.93147182e-01f, 2.40226462e-01f, 5.55032864e-02f, 9.61848907e-03f,
                             1.33999321e-03f, 1.53457891e-04f);
  return power * power_of_two(shifted);
}

/// R(a) = Q(a) exp(a^2/2) for a >= 0; constant from 5 on, where Q(a) is below 3e-7.
template <class F>
TESSERA_ELEMENT F normal_tail_ratio(F a) {
  return polynomial(at_most(a, 5.0f), 4.99999970e-01f, -3.98939550e-01f, 2.49957874e-01f, -1.32727474e-01f,
                    6.17147908e-02f, -2.51535140e-02f, 8.70893244e-03f, -2.41875695e-03f, 5.01217903e-04f,
                    -7.09738670e-05f, 6.02558430e-06f, -2.28888553e-07f);
}

/// max(x, 0) - a Q(a).
template <class F>
TESSERA_ELEMENT F gelu(F x) {
  const F magnitude = abs(x), a = at_most(magnitude, gelu_limit);
  // max(x, 0), but NaN at minus infinity, as x Phi(x) is; cheaper in vectors than a select.
  const F positive = fma(F(0.5f), x, F(0.5f) * magnitude);
  return fma(-a * gaussian(a), normal_tail_ratio(a), positive);
}
TESSERA_ELEMENT double gelu(double x) {
  return 0.5 * x * (1.0 + erf(x * 0.70710678118654752440));
}

/// dy (Phi(x) + x phi(x)): with s = Q(a) - a phi(a), the derivative is s for x <= 0 and 1 - s for x > 0.
template <class F>
TESSERA_ELEMENT F gelu_backward(F x, F dy) {
  const F a = at_most(abs(x), gelu_limit);
  const F s = gaussian(a) * fma(a, F(-0.39894228040143267794f), normal_tail_ratio(a));
  return dy * where_positive(x, F(1.0f) - s, s);
}
TESSERA_ELEMENT double gelu_backward(double x, double dy) {
  const double cumulative = 0.5 * (1.0 + erf(x * 0.70710678118654752440));
  const double density = 0.39894228040143267794 * exp(-0.5 * x * x);
  return dy * fma(x, density, cumulative);
}

/// A function's value at x, and dy times its derivative at x.
template <class T>
struct ValueAndGradient {
  T value, gradient;
};

/// gelu(x) and gelu_backward(x, dy), with the same bits, from one exponential.
template <class F>
TESSERA_ELEMENT ValueAndGradient<F> gelu_with_gradient(F x, F dy) {
  const F magnitude = abs(x), a = at_most(magnitude, gelu_limit);
  const F g = gaussian(a), ratio = normal_tail_ratio(a);
  const F positive = fma(F(0.5f), x, F(0.5f) * magnitude);
  const F s = g * fma(a, F(-0.39894228040143267794f), ratio);
  return {fma(-a * g, ratio, positive), dy * where_positive(x, F(1.0f) - s, s)};
}
TESSERA_ELEMENT ValueAndGradient<double> gelu_with_gradient(double x, double dy) {
  const double cumulative = 0.5 * (1.0 + erf(x * 0.70710678118654752440));
  const double density = 0.39894228040143267794 * exp(-0.5 * x * x);
  return {0.5 * x * (1.0 + erf(x * 0.70710678118654752440)), dy * fma(x, density, cumulative)};
}

TESSERA_ELEMENTWISE_END
