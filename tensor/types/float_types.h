#pragma once

#include <bit>
#include <cstdint>

#include "tensor/types/host_device.h"

namespace tessera {

/// bfloat16: the upper half of an IEEE f32. Arithmetic happens in f32; this type only stores.
struct bfloat16 {
  uint16_t bits;  ///< sign, 8 bits of exponent, 7 of mantissa

  bfloat16() = default;
  /// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
  TESSERA_HD explicit bfloat16(float value) {
    const uint32_t u = __builtin_bit_cast(uint32_t, value);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(nan ? ((u >> 16) | 0x40u) : rounded);
  }
  /// The value, exactly.
  TESSERA_HD explicit operator float() const {
    return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
  }
};

/// IEEE 754 binary16. Arithmetic happens in f32; this type only stores.
struct float16 {
  uint16_t bits;  ///< sign, 5 bits of exponent, 10 of mantissa

  float16() = default;
  /// Rounds to nearest, ties to even; values of 65520 and more become infinite. Branchless, and free of f32
  /// denormals, so that it gives the same bits with denormals flushed.
  TESSERA_HD explicit float16(float value) {
    const uint32_t u = __builtin_bit_cast(uint32_t, value);
    const uint32_t sign = (u >> 16) & 0x8000u;
    const uint32_t a = u & 0x7fffffffu;
    // Normal halves: rebias the exponent (127 - 15 = 112) and round the 13 dropped bits to even.
    const uint32_t normal = (a - (112u << 23) + 0xfffu + ((a >> 13) & 1u)) >> 13;
    // Subnormal halves: adding 0.5 puts the half's last bit at the float's last bit, and the adder rounds.
    const float shifted = __builtin_bit_cast(float, a < (113u << 23) ? a : 0u) + 0.5f;
    const uint32_t subnormal = __builtin_bit_cast(uint32_t, shifted) - __builtin_bit_cast(uint32_t, 0.5f);
    uint32_t h = a < (113u << 23) ? subnormal : normal;
    h = a >= 0x477ff000u ? 0x7c00u : h;
    h = a > 0x7f800000u ? 0x7e00u : h;
    bits = static_cast<uint16_t>(sign | h);
  }
  /// The value, exactly.
  TESSERA_HD explicit operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu;
    const uint32_t mantissa = bits & 0x3ffu;
    const float subnormal = static_cast<float>(static_cast<int32_t>(mantissa)) * 0x1p-24f;
    uint32_t u = ((exponent + 112u) << 23) | (mantissa << 13);
    u = exponent == 31u ? (0x7f800000u | (mantissa << 13)) : u;
    u = exponent == 0u ? __builtin_bit_cast(uint32_t, subnormal) : u;
    return __builtin_bit_cast(float, sign | u);
  }
};

}  // namespace tessera
