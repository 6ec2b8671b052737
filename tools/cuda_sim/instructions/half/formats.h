// The 16-bit floating-point formats: to and from f32, without branches.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera::cuda_sim {

/// To f32, rounded to odd: rounding that once more to a format with at least two bits less gives what one
/// rounding of the exact value would.
inline float to_odd_float(double x) {
  const float nearest = static_cast<float>(x);
  const double back = nearest;
  const bool is_greater = (back < 0 ? -back : back) > (x < 0 ? -x : x);
  const uint32_t toward_zero = std::bit_cast<uint32_t>(nearest) - (is_greater ? 1 : 0);
  return std::bit_cast<float>(toward_zero | (back != x ? 1 : 0));
}

/// a + b in f64, rounded to odd.
inline double sum_to_odd(double a, double b) {
  const double sum = a + b, part = sum - a;
  const double error = (a - (sum - part)) + (b - part);  // exact (Knuth)
  const auto bits = std::bit_cast<uint64_t>(sum);
  // The odd neighbour lies on the side of the error: one up in magnitude, or one down.
  const uint64_t step = (error > 0) == (sum > 0) ? 1 : ~uint64_t{0};
  return std::bit_cast<double>((error > 0 || error < 0) && (bits & 1) == 0 ? bits + step : bits);
}

/// IEEE binary16: 5 bits of exponent, 10 of fraction.
struct Half {
  static float to_float(uint16_t half) {
    const uint32_t wide = half, magnitude = (wide & 0x7fffu) << 13;
    const auto scaled = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
    const uint32_t bits = magnitude >= 0x7c00u << 13 ? magnitude | 0x7f800000u : scaled;
    return std::bit_cast<float>(bits | (wide & 0x8000u) << 16);
  }
  /// To nearest, ties to even; a NaN becomes 0x7fff.
  static uint16_t from_float(float x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
    // Beside 0.5 a float counts in units of 2^-24, the least subnormal.
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
    const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
    const uint32_t rounded = magnitude >= 0x477ff000u ? 0x7c00u : finite;
    const uint32_t result = magnitude > 0x7f800000u ? 0x7fffu : rounded | (bits >> 16 & 0x8000u);
    return static_cast<uint16_t>(result);
  }
  static uint16_t from_double(double x) { return from_float(to_odd_float(x)); }
  static constexpr uint16_t exponent_bits = 0x7c00;
  static constexpr int fraction_bits = 10;
};

/// bfloat16: the upper half of an f32.
struct BFloat {
  static float to_float(uint16_t bfloat) { return std::bit_cast<float>(static_cast<uint32_t>(bfloat) << 16); }
  static uint16_t from_float(float x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
  }
  static uint16_t from_double(double x) { return from_float(to_odd_float(x)); }
  static constexpr uint16_t exponent_bits = 0x7f80;
  static constexpr int fraction_bits = 7;
};

/// .ftz of a 16-bit value.
template <class Format>
uint16_t flush_half(uint16_t bits) {
  return (bits & Format::exponent_bits) == 0 ? bits & 0x8000 : bits;
}

}  // namespace tessera::cuda_sim
