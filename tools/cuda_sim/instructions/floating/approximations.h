// ex2, lg2, sin, cos and tanh.approx.
//
// A card's results are within the bounds that the PTX ISA states, and their bits are not documented. Here
// they are the exact value but for one rounding: computed in double to about 1e-13, in loops that vectorise.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tessera::cuda_sim::floating {

/// first + x rest[0] + x^2 rest[1] + ...
template <class... Rest>
inline double polynomial(double x, double first, Rest... rest) {
  if constexpr (sizeof...(rest) == 0)
    return first;
  else
    return std::fma(polynomial(x, rest...), x, first);
}

/// 2^x. The fraction by the Taylor series of exp, the integer part into the exponent.
inline double exp2_of(double x) {
  const double bounded = x < -1000  ? -1000
                         : x > 1000 ? 1000
                                    : x;  // beyond f32 in both directions; a NaN stays
  const double whole = std::nearbyint(bounded);
  const double t = (bounded - whole) * 0.69314718055994530942;  // |t| <= 0.347
  const double sum = polynomial(t, 1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040,
                                1.0 / 40320, 1.0 / 362880);
  // whole + 1.5 * 2^52 holds the integer in its lowest bits.
  const auto integer = std::bit_cast<uint64_t>(whole + 0x1.8p52) - std::bit_cast<uint64_t>(0x1.8p52);
  return sum * std::bit_cast<double>((integer + 1023) << 52);
}

/// log2(x) of a positive normal double: the exponent, and the mantissa by the series of atanh.
inline double log2_of_normal(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  // The mantissa into [sqrt(1/2), sqrt(2)).
  const uint64_t shifted = bits - 0x3fe6a09e667f3bcdu;
  const uint64_t exponent = shifted >> 52;  // of 12 bits, two's complement
  const double mantissa = std::bit_cast<double>((shifted & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
  const double signed_exponent =
      std::bit_cast<double>((exponent ^ 0x800) + std::bit_cast<uint64_t>(0x1.8p52)) - 0x1.8p52 - 2048;
  const double s = (mantissa - 1) / (mantissa + 1), s2 = s * s;  // |s| <= 0.172
  const double sum = polynomial(s2, 1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15);
  return std::fma(2.88539008177792681472 * s, sum, signed_exponent);
}

/// "lg2": -inf of zeros, NaN of negative numbers, +inf of +inf.
inline double log2_of(float x) {
  const double value = log2_of_normal(x);  // every positive f32 is a normal double
  const double infinity = std::numeric_limits<double>::infinity();
  const double ordinary = x < std::numeric_limits<float>::infinity() ? value : infinity;
  return x > 0 ? ordinary : x == 0 ? -infinity : std::numeric_limits<double>::quiet_NaN();
}

/// tanh: by exp2, near zero by its series.
inline double tanh_of(double x) {
  const double bounded = x < -30 ? -30 : x > 30 ? 30 : x;
  const double power = exp2_of(bounded * 2.88539008177792681472);
  const double far = (power - 1) / (power + 1);
  const double near = x * (1 - x * x * (1.0 / 3));
  return std::fabs(x) < 1e-3 ? near : far;
}

}  // namespace tessera::cuda_sim::floating
