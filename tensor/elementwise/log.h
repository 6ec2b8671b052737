#pragma once  // internal

#include "tensor/elementwise/target.h"

/// log, log1p, log2, log10. x = 2^k m with m near 1, so log(x) = k ln 2 + log(m). log(m) is a minimax
/// polynomial (minimax.py): f - f^2/2 + f^3 P(f) for f = m - 1 in f32; in s = f / (2 + f) in f64 (as fdlibm's
/// e_log.c). Errors: below 1 ulp; log2 and log10 in f64 below 2 ulp.
TESSERA_ELEMENTWISE_BEGIN

/// log(1 + f) + k ln 2 for f in [-1/3, 1/3].
TESSERA_ELEMENT float log_core(float f, float k) {
  const float p = polynomial(f, 3.33332151e-01f, -2.49997973e-01f, 2.00104043e-01f, -1.66804716e-01f,
                             1.40059054e-01f, -1.21845156e-01f, 1.39842629e-01f, -1.28904805e-01f);
  const float log_m = fma(f * f, fma(p, f, -0.5f), f);
  return fma(k, 0x1.62e430p-1f, log_m);
}

/// log(1 + f) + k ln 2 + tail for 1 + f in [sqrt(1/2), sqrt(2)], where `tail` is a small correction.
TESSERA_ELEMENT double log_core(double f, double k, double tail) {
  const double s = f / (2.0 + f), z = s * s;
  const double p = polynomial(z, 6.6666666666666663e-01, 4.0000000000006264e-01, 2.8571428569080887e-01,
                              2.2222222647556328e-01, 1.8181775604446976e-01, 1.5387093435112306e-01,
                              1.3250057624955935e-01, 1.3251880430874760e-01);
  const double half_square = 0.5 * f * f;
  // ln 2 in two parts; the first has so few bits that its product with k is exact.
  const double low = fma(k, 1.90821492927058770002e-10, tail);
  return fma(k, 6.93147180369123816490e-01, f - (half_square - fma(s, fma(z, p, half_square), low)));
}

/// x = 2^k (1 + f); subnormal x are scaled up first.
struct FloatParts {
  float f, k;
};
TESSERA_ELEMENT FloatParts split(float x) {
  const bool tiny = x < Floating<float>::smallest_normal;
  const uint32_t bits = bits_of(tiny ? x * 0x1p23f : x);
  const uint32_t exponent = (bits - 0x3f2aaaabu) & 0xff800000u;  // m in [2/3, 4/3)
  const float k = static_cast<float>(static_cast<int32_t>(exponent)) * 0x1p-23f;
  return {from_bits(bits - exponent) - 1.0f, tiny ? k - 23.0f : k};
}
struct DoubleParts {
  double f, k;
};
TESSERA_ELEMENT DoubleParts split(double x) {
  const bool tiny = x < Floating<double>::smallest_normal;
  const uint64_t bits = bits_of(tiny ? x * 0x1p54 : x);
  // m in [sqrt(1/2), sqrt(2)); the exponent keeps its bias of 1023 and becomes a double through its bits.
  const uint64_t biased = (bits - 0x3fe6a09e667f3bcdull + 0x3ff0000000000000ull) >> 52;
  const double k = from_bits(0x4330000000000000ull | biased) - (0x1p52 + 1023.0);
  return {from_bits(bits - (biased << 52) + 0x3ff0000000000000ull) - 1.0, tiny ? k - 54.0 : k};
}

/// `value`, except where x is 0 (minus infinity), negative (NaN), or infinity or NaN (x itself).
template <class T>
TESSERA_ELEMENT T log_of_special(T x, T value) {
  T result = x <= Floating<T>::largest ? value : x + x;
  result = x < T(0) ? Floating<T>::quiet_nan : result;
  return x == T(0) ? -Floating<T>::infinity : result;
}

/// The natural logarithm.
TESSERA_ELEMENT float log(float x) {
  const FloatParts parts = split(x);
  return log_of_special(x, log_core(parts.f, parts.k));
}
TESSERA_ELEMENT double log(double x) {
  const DoubleParts parts = split(x);
  return log_of_special(x, log_core(parts.f, parts.k, 0.0));
}

/// The logarithm to base 2; exact at powers of 2.
TESSERA_ELEMENT double log2(double x) {
  const DoubleParts parts = split(x);
  return log_of_special(x, fma(log_core(parts.f, 0.0, 0.0), 1.44269504088896340736, parts.k));
}
TESSERA_ELEMENT float log2(float x) {
  return static_cast<float>(log2(static_cast<double>(x)));
}

/// The logarithm to base 10.
TESSERA_ELEMENT double log10(double x) {
  const DoubleParts parts = split(x);
  // log10(2) in two parts; the first times k is exact.
  const double low =
      fma(log_core(parts.f, 0.0, 0.0), 4.34294481903251816668e-01, parts.k * 3.69423907715893078616e-13);
  return log_of_special(x, fma(parts.k, 3.01029995663611771306e-01, low));
}
TESSERA_ELEMENT float log10(float x) {
  return static_cast<float>(log10(static_cast<double>(x)));
}

/// log(1 + x), accurate for small x.
TESSERA_ELEMENT float log1p(float x) {
  // The exponent is taken from the rounded sum; f = 2^-k (1 + x) - 1 from x itself.
  const uint32_t exponent = (bits_of(1.0f + x) - 0x3f2aaaabu) & 0xff800000u;
  const float k = static_cast<float>(static_cast<int32_t>(exponent)) * 0x1p-23f;
  const float scaled = from_bits(bits_of(x) - exponent);
  const float f = scaled + fma(0.25f, from_bits(0x40800000u - exponent), -1.0f);
  const float value = log_of_special(1.0f + x, log_core(exponent == 0 ? x : f, k));
  return x == 0.0f ? x : value;
}
TESSERA_ELEMENT double log1p(double x) {
  const double sum = 1.0 + x;
  const double lost = sum >= 2.0 ? 1.0 - (sum - x) : x - (sum - 1.0);
  const DoubleParts parts = split(sum);
  const double value = log_of_special(sum, log_core(parts.f, parts.k, lost / sum));
  return x == 0.0 ? x : value;
}

TESSERA_ELEMENTWISE_END
