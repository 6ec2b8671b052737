#pragma once  // internal

#include "tensor/elementwise/target.h"

/// exp, exp2 and expm1. x = n ln 2 + r with |r| <= ln(2)/2, so exp(x) = 2^n exp(r); exp(r) is a minimax
/// polynomial (minimax.py) and 2^n is built from its bits. Errors, measured by
/// tests/tensor/elementwise/elementwise_accuracy_test.cpp: exp and exp2 below 1 ulp, expm1 below 1.6 ulp.
TESSERA_ELEMENTWISE_BEGIN

/// An argument reduced to n ln 2 + r. For double, 4096 is added to n, so that shifts are unsigned.
template <class T>
struct Reduced;
template <>
struct Reduced<float> {
  int32_t n;
  float r;
};
template <>
struct Reduced<double> {
  uint64_t n;  // n + 4096
  double r;
};

/// Adding 1.5 * 2^23 shifts the fraction out of the float: its low bits then hold the nearest integer.
TESSERA_ELEMENT Reduced<float> reduce_exp(float x) {
  constexpr float magic = 0x1.8p23f;
  const float shifted = fma(x, 0x1.715476p0f, magic);  // log2(e)
  const float n = shifted - magic;
  const float r = fma(n, -0x1.62e430p-1f, x);  // ln 2 in two parts
  return {static_cast<int32_t>(bits_of(shifted) - bits_of(magic)), fma(n, 0x1.05c610p-29f, r)};
}
TESSERA_ELEMENT Reduced<double> reduce_exp(double x) {
  constexpr double magic = 0x1.8p52;
  const double shifted = fma(x, 0x1.71547652b82fep0, magic);
  const double n = shifted - magic;
  const double r = fma(n, -0x1.62e42fefa39efp-1, x);
  return {bits_of(shifted) - bits_of(magic) + 4096, fma(n, -0x1.abc9e3b39803fp-56, r)};
}

/// (exp(r) - 1 - r) / r^2 for |r| <= 0.3467.
TESSERA_ELEMENT float exp_quadratic(float r) {
  return polynomial(r, 5.00000000e-01f, 1.66665435e-01f, 4.16662805e-02f, 8.36660340e-03f, 1.39464485e-03f);
}
TESSERA_ELEMENT double exp_quadratic(double r) {
  return polynomial(r, 5.0000000000000000e-01, 1.6666666666666677e-01, 4.1666666666666699e-02,
                    8.3333333333215909e-03, 1.3888888888866683e-03, 1.9841269886229784e-04,
                    2.4801587360825523e-05, 2.7557244102444435e-06, 2.7557242551474683e-07,
                    2.5109075068304926e-08, 2.0924503005888796e-09);
}

/// exp(r) - 1 for |r| <= 0.3467.
template <class T>
TESSERA_ELEMENT T expm1_core(T r) {
  return fma(exp_quadratic(r), r * r, r);
}

/// y * 2^n in two exact steps, so that n may exceed the exponent's range: the result is then infinite or
/// flushed to 0.
TESSERA_ELEMENT float scale(float y, int32_t n) {
  const int32_t half = n >> 1;
  return y * from_bits(static_cast<uint32_t>(half + 127) << 23) *
         from_bits(static_cast<uint32_t>(n - half + 127) << 23);
}
/// 4096 is added to n.
TESSERA_ELEMENT double scale(double y, uint64_t n) {
  const uint64_t half = n >> 1;
  return y * from_bits((half - 2048 + 1023) << 52) * from_bits((n - half - 2048 + 1023) << 52);
}

/// e^x.
TESSERA_ELEMENT float exp(float x) {
  float bounded = x > 89.0f ? 89.0f : x;  // a NaN passes both
  bounded = bounded < -104.0f ? -104.0f : bounded;
  const Reduced<float> reduced = reduce_exp(bounded);
  return scale(1.0f + expm1_core(reduced.r), reduced.n);
}
TESSERA_ELEMENT double exp(double x) {
  double bounded = x > 710.0 ? 710.0 : x;
  bounded = bounded < -746.0 ? -746.0 : bounded;
  const Reduced<double> reduced = reduce_exp(bounded);
  return scale(1.0 + expm1_core(reduced.r), reduced.n);
}

/// e^(x + tail), where |tail| is at most a few ulps of x.
TESSERA_ELEMENT double exp_sum(double x, double tail) {
  double bounded = x > 710.0 ? 710.0 : x;
  bounded = bounded < -746.0 ? -746.0 : bounded;
  const Reduced<double> reduced = reduce_exp(bounded);
  const double sum = 1.0 + reduced.r, lost = (1.0 - sum) + reduced.r;
  const double rest = exp_quadratic(reduced.r) * (reduced.r * reduced.r);
  return scale(sum + (rest + fma(tail, sum + rest, lost)), reduced.n);
}

/// 2^x.
TESSERA_ELEMENT float exp2(float x) {
  constexpr float magic = 0x1.8p23f;
  float bounded = x > 129.0f ? 129.0f : x;
  bounded = bounded < -151.0f ? -151.0f : bounded;
  const float shifted = bounded + magic;
  const float r = (bounded - (shifted - magic)) * 0x1.62e430p-1f;
  return scale(1.0f + expm1_core(r), static_cast<int32_t>(bits_of(shifted) - bits_of(magic)));
}
TESSERA_ELEMENT double exp2(double x) {
  constexpr double magic = 0x1.8p52;
  double bounded = x > 1025.0 ? 1025.0 : x;
  bounded = bounded < -1076.0 ? -1076.0 : bounded;
  const double shifted = bounded + magic;
  const double r = (bounded - (shifted - magic)) * 0x1.62e42fefa39efp-1;
  return scale(1.0 + expm1_core(r), bits_of(shifted) - bits_of(magic) + 4096);
}

/// e^x - 1, without the cancellation near 0: 2^n (exp(r) - 1) + (2^n - 1). Half of it is computed and then
/// doubled, since 2^n alone may overflow.
TESSERA_ELEMENT float expm1(float x) {
  float bounded = x > 89.0f ? 89.0f : x;
  bounded = bounded < -30.0f ? -30.0f : bounded;
  const Reduced<float> reduced = reduce_exp(bounded);
  const float core = expm1_core(reduced.r);
  const float half_power = from_bits(static_cast<uint32_t>(reduced.n + 126) << 23);
  const float half = fma(core, half_power, half_power - 0.5f);
  const float result = reduced.n == 0 ? core : half + half;
  return x == 0.0f ? x : result;
}
TESSERA_ELEMENT double expm1(double x) {
  double bounded = x > 710.0 ? 710.0 : x;
  bounded = bounded < -50.0 ? -50.0 : bounded;
  const Reduced<double> reduced = reduce_exp(bounded);
  const double core = expm1_core(reduced.r);
  const double half_power = from_bits((reduced.n - 4096 + 1022) << 52);
  const double half = fma(core, half_power, half_power - 0.5);
  const double result = reduced.n == 4096 ? core : half + half;
  return x == 0.0 ? x : result;
}

TESSERA_ELEMENTWISE_END
