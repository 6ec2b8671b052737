#pragma once

#include "tensor/elementwise/log.h"
#include "tensor/elementwise/normal_quantile.h"
#include "tensor/elementwise/trigonometric.h"

/// Random numbers as a pure function of (key, element, sample, step): any rank on any device can fill any
/// range of a tensor with the values that the full tensor has there.
TESSERA_ELEMENTWISE_BEGIN

/// Four words of 32 bits: a counter, or the random bits made from it.
struct PhiloxBlock {
  uint32_t word[4];  ///< in a random block, word i belongs to element 4 `block` + i
};

/// Philox 4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
TESSERA_ELEMENT PhiloxBlock philox(PhiloxBlock counter, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
#if defined(__CUDACC__) || defined(__clang__)
#pragma unroll
#else
#pragma GCC unroll 10
#endif
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0, p1 = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0,
                   n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// The random block of elements 4 `block` .. 4 `block` + 3. Counter words: block (low, high), sample, step.
TESSERA_ELEMENT PhiloxBlock random_block(uint64_t key, uint64_t block, uint32_t sample, uint32_t step) {
  return philox({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), sample, step}}, key);
}
/// Further bits for the same elements (the low half of f64 uniforms): the counter with its block's top bit
/// set.
TESSERA_ELEMENT PhiloxBlock random_low_block(uint64_t key, uint64_t block, uint32_t sample, uint32_t step) {
  return random_block(key, block | 0x8000000000000000ull, sample, step);
}

/// [0, 1) in steps of 2^-24: the word's upper 24 bits.
TESSERA_ELEMENT float uniform_f32(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f;
}
/// An unsigned word as a double, through its bits (so that it vectorizes without a 64-bit conversion).
TESSERA_ELEMENT double to_double(uint32_t word) {
  return from_bits(0x4330000000000000ull | word) - 0x1p52;
}
/// [0, 1) in steps of 2^-53; its first 24 bits are uniform_f32's.
TESSERA_ELEMENT double uniform_f64(uint32_t word, uint32_t low_word) {
  return fma(to_double(low_word >> 11), 0x1p-53, to_double(word) * 0x1p-32);
}

/// Two independent normal values from two words (Box and Muller 1958): radius from the first, angle from the
/// second. The radius takes (word + 1/2) 2^-32, so that values reach +-6.7 and the logarithm is never of 0.
/// In f64 for every dtype: an f32 normal is this one, rounded.
struct NormalPair {
  /// The radius times the angle's cosine, and times its sine.
  /// @{
  double first, second;
  /// @}
};
/// The pair that two random words give.
TESSERA_ELEMENT NormalPair normal_pair(uint32_t radius_word, uint32_t angle_word) {
  const double u = (to_double(radius_word) + 0.5) * 0x1p-32;
  const double radius = sqrt(-2.0 * log(u));
  // The angle's upper two bits are the quadrant, the rest an angle in [-pi/4, pi/4).
  const double r = (to_double(angle_word & 0x3fffffffu) - 0x1p29) * (1.57079632679489661923 * 0x1p-30);
  const SinCos core = sincos_core(r, 0.0);
  const uint32_t quadrant = angle_word >> 30;
  const bool swapped = (quadrant & 1u) != 0;
  const uint64_t sin_sign = static_cast<uint64_t>(quadrant & 2u) << 62;
  const uint64_t cos_sign = static_cast<uint64_t>((quadrant + 1u) & 2u) << 62;
  const double s = swapped ? core.cos : core.sin, c = swapped ? core.sin : core.cos;
  return {radius * from_bits(bits_of(c) ^ cos_sign), radius * from_bits(bits_of(s) ^ sin_sign)};
}

/// A normal value within [low, high], given the cumulative function's values there: the quantile of a uniform
/// value between them.
TESSERA_ELEMENT double truncated_normal(uint32_t word, double low, double high, double cumulative_low,
                                        double cumulative_high) {
  const double u = (to_double(word) + 0.5) * 0x1p-32;
  const double x = normal_quantile(cumulative_low + u * (cumulative_high - cumulative_low));
  const double above = x < low ? low : x;
  return above > high ? high : above;
}

/// Whether an event of probability p happens: the word is below `threshold` = p 2^32 (see
/// bernoulli_threshold).
TESSERA_ELEMENT bool bernoulli(uint32_t word, uint64_t threshold) {
  return word < threshold;
}
/// p 2^32, rounded to nearest; p in [0, 1].
TESSERA_ELEMENT uint64_t bernoulli_threshold(double p) {
  return static_cast<uint64_t>(p * 0x1p32 + 0.5);
}

TESSERA_ELEMENTWISE_END
