// Floating-point formats of 8 to 19 bits: rounding of a double to them in every mode.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tools/cuda_sim/instructions/rounding.h"

namespace tessera::cuda_sim::conversion {

/// A format: bits of fraction, least exponent of a normal number, and the codes without their sign.
struct Format {
  int fraction_bits, least_exponent;
  uint32_t greatest, infinity, nan;
  int sign_bit;
};
inline constexpr Format f16_format{10, -14, 0x7bff, 0x7c00, 0x7fff, 15};
inline constexpr Format bf16_format{7, -126, 0x7f7f, 0x7f80, 0x7fff, 15};
/// tf32 is the upper 19 bits of an f32.
inline constexpr Format tf32_format{10, -126, 0x3fbff, 0x3fc00, 0x3ffff, 18};
/// e4m3 has no infinity: what is too large is NaN, or with .satfinite the greatest number.
inline constexpr Format e4m3_format{3, -6, 0x7e, 0x7f, 0x7f, 7};
inline constexpr Format e5m2_format{2, -14, 0x7b, 0x7c, 0x7f, 7};

/// The code of x, rounded once. A NaN becomes the format's without sign.
inline uint32_t encode(const Format& format, double x, Rounding rounding, bool saturates_to_finite) {
  if (x != x) return format.nan;
  const bool is_negative = std::signbit(x);
  const uint32_t sign = is_negative ? uint32_t{1} << format.sign_bit : 0;
  const double magnitude = std::fabs(x);
  const uint32_t overflow = saturates_to_finite ? format.greatest : format.infinity;
  if (magnitude > std::numeric_limits<double>::max()) return sign | overflow;
  const auto biased = static_cast<int>(std::bit_cast<uint64_t>(magnitude) >> 52);
  const int exponent = std::max(biased - 1023, format.least_exponent);
  // In units of the last place: below 2^(fraction_bits + 1), so both parts are exact.
  const double units = std::ldexp(magnitude, format.fraction_bits - exponent);
  const double whole = std::floor(units), rest = units - whole;
  auto count = static_cast<uint32_t>(whole);
  bool is_up = false;
  switch (rounding) {
    case Rounding::nearest:
      is_up = rest > 0.5 || (rest == 0.5 && (count & 1) != 0);
      break;
    case Rounding::nearest_away:
      is_up = rest >= 0.5;
      break;
    case Rounding::zero:
      break;
    case Rounding::down:
      is_up = rest > 0 && is_negative;
      break;
    case Rounding::up:
      is_up = rest > 0 && !is_negative;
      break;
  }
  if (is_up) ++count;
  // A carry out of the fraction goes into the exponent by itself.
  const uint32_t code =
      (static_cast<uint32_t>(exponent - format.least_exponent) << format.fraction_bits) + count;
  if (code <= format.greatest) return sign | code;
  const bool stays_finite = rounding == Rounding::zero || (rounding == Rounding::down && !is_negative) ||
                            (rounding == Rounding::up && is_negative);
  return sign | (stays_finite ? format.greatest : overflow);
}

/// The value of a code; for formats of 8 bits.
inline float decode(const Format& format, uint32_t code) {
  const uint32_t magnitude = code & ((uint32_t{1} << format.sign_bit) - 1);
  const float sign = (code >> format.sign_bit & 1) != 0 ? -1.0f : 1.0f;
  if (magnitude == format.nan || magnitude > format.infinity) return std::numeric_limits<float>::quiet_NaN();
  if (magnitude == format.infinity) return sign * std::numeric_limits<float>::infinity();
  const auto exponent = static_cast<int>(magnitude >> format.fraction_bits);
  const uint32_t fraction = magnitude & ((uint32_t{1} << format.fraction_bits) - 1);
  const uint32_t count = exponent == 0 ? fraction : fraction | uint32_t{1} << format.fraction_bits;
  const int scale = std::max(exponent, 1) - 1 + format.least_exponent - format.fraction_bits;
  return sign * std::ldexp(static_cast<float>(count), scale);
}

/// A double that rounds to a format of at most 51 bits as the integer does: what does not fit leaves a last
/// bit that is one.
template <class T>
double to_odd_double(T value) {
  if constexpr (sizeof(T) < 8) {
    return value;
  } else {
    const bool is_negative = value < 0;
    const uint64_t magnitude = is_negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    const uint64_t kept = magnitude < (uint64_t{1} << 53) ? magnitude : magnitude >> 11 << 11;
    const uint64_t sticky = kept != magnitude ? uint64_t{1} << 11 : 0;
    const auto result = static_cast<double>(kept | sticky);
    return is_negative ? -result : result;
  }
}

}  // namespace tessera::cuda_sim::conversion
