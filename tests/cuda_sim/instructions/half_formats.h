// Small floating-point formats, given by their values: rounding is a search among all numbers of the format.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/cuda_sim/instructions/evaluate.h"

namespace tessera::cuda_sim::testing {

struct SmallFormat {
  int fraction_bits, bias;
  uint32_t infinity;  ///< the code; numbers are below
  uint32_t nan;       ///< that conversions give
  uint32_t sign;      ///< the bit
  uint32_t greatest;
};
inline constexpr SmallFormat f16{10, 15, 0x7c00, 0x7fff, 0x8000, 0x7bff};
inline constexpr SmallFormat bf16{7, 127, 0x7f80, 0x7fff, 0x8000, 0x7f7f};
inline constexpr SmallFormat e4m3{3, 7, 0x80, 0x7f, 0x80, 0x7e};  // no infinity
inline constexpr SmallFormat e5m2{2, 15, 0x7c, 0x7f, 0x80, 0x7b};

inline double value_of(const SmallFormat& format, uint32_t code) {
  const uint32_t magnitude = code & (format.sign - 1);
  const double sign = (code & format.sign) != 0 ? -1.0 : 1.0;
  if (magnitude > format.greatest) return magnitude == format.infinity ? sign * INFINITY : NAN;
  const auto exponent = static_cast<int>(magnitude >> format.fraction_bits);
  const double fraction =
      (magnitude & ((1u << format.fraction_bits) - 1)) * std::ldexp(1.0, -format.fraction_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - format.bias)
                               : std::ldexp(1 + fraction, exponent - format.bias));
}

enum class Direction { nearest, zero, down, up, nearest_away };

/// The code of the number of the format that x rounds to.
inline uint32_t round_to(const SmallFormat& format, double x, Direction direction = Direction::nearest,
                         bool satfinite = false) {
  if (std::isnan(x)) return format.nan;
  const uint32_t sign = std::signbit(x) ? format.sign : 0;
  const double magnitude = std::fabs(x);
  // The greatest code of which the value is not above.
  uint32_t low = 0, high = format.greatest + 1;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (value_of(format, middle) <= magnitude ? low : high) = middle;
  }
  const double below = value_of(format, low);
  // What would follow the greatest number, if exponents went on.
  const double above =
      low == format.greatest ? 2 * below - value_of(format, low - 1) : value_of(format, low + 1);
  const bool is_toward_zero = direction == Direction::zero || (direction == Direction::down && sign == 0) ||
                              (direction == Direction::up && sign != 0);
  bool is_up = false;
  if (magnitude != below) {
    if (direction == Direction::nearest || direction == Direction::nearest_away) {
      const double middle = (below + above) / 2;
      is_up = magnitude > middle ||
              (magnitude == middle && (direction == Direction::nearest_away || (low & 1) != 0));
    } else {
      is_up = !is_toward_zero;
    }
  }
  if (std::isinf(x)) is_up = true;
  if (!is_up) return sign | low;
  if (low != format.greatest) return sign | (low + 1);
  if (satfinite) return sign | format.greatest;
  return sign | (format.infinity < format.sign ? format.infinity : format.nan);
}

/// a + b as a double of which the last bit shows that something was cut off.
inline double sum_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double part = sum - a, error = (a - (sum - part)) + (b - part);
  if (error == 0 || (std::bit_cast<uint64_t>(sum) & 1) != 0) return sum;
  return std::nextafter(sum, error > 0 ? INFINITY : -INFINITY);
}

}  // namespace tessera::cuda_sim::testing
