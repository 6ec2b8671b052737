#pragma once

#include <cstdint>

#include "tensor/types/host_device.h"

// The conversions between the 16-bit formats and f32. Every other one, of arrays too, is made of these. They
// have no branches, so that loops over them become vector code, and no f32 denormals, so that they give the
// same bits with denormals flushed.
namespace tessera {

/// bfloat16: the upper half of an IEEE f32. Arithmetic happens in f32; this type only stores.
struct bfloat16 {
  uint16_t bits;  ///< sign, 8 bits of exponent, 7 of mantissa

  bfloat16() = default;
  /// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
  TESSERA_ELEMENT explicit bfloat16(float value) {
    const uint32_t u = __builtin_bit_cast(uint32_t, value);
    const uint32_t rounded = u + 0x7fffu + ((u >> 16) & 1u);
    const uint32_t chosen = (u & 0x7fffffffu) > 0x7f800000u ? u | 0x400000u : rounded;
    bits = static_cast<uint16_t>(chosen >> 16);
  }
  /// The value, exactly.
  TESSERA_ELEMENT explicit operator float() const {
    return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
  }
};

/// IEEE 754 binary16. Arithmetic happens in f32; this type only stores.
struct float16 {
  uint16_t bits;  ///< sign, 5 bits of exponent, 10 of mantissa

  float16() = default;
  /// Rounds to nearest, ties to even; values of 65520 and more become infinite.
  TESSERA_ELEMENT explicit float16(float value) {
    const uint32_t u = __builtin_bit_cast(uint32_t, value), a = u & 0x7fffffffu;
    // Normal halves: rebias the exponent (127 - 15 = 112) and round the 13 dropped bits to even.
    const uint32_t normal = (a - (112u << 23) + 0xfffu + ((a >> 13) & 1u)) >> 13;
    // Subnormal halves: adding 0.5 puts the half's last bit at the float's last bit, and the adder rounds.
    const float shifted = __builtin_bit_cast(float, a < (113u << 23) ? a : 0u) + 0.5f;
    const uint32_t subnormal = __builtin_bit_cast(uint32_t, shifted) - __builtin_bit_cast(uint32_t, 0.5f);
    uint32_t h = a < (113u << 23) ? subnormal : normal;
    h = a >= 0x477ff000u ? 0x7c00u : h;
    h = a > 0x7f800000u ? 0x7e00u : h;
    bits = static_cast<uint16_t>(h | ((u >> 16) & 0x8000u));
  }
  /// The value, exactly.
  TESSERA_ELEMENT explicit operator float() const {
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
    const uint32_t normal = magnitude + (112u << 23);
    const uint32_t special = magnitude + (224u << 23);
    // Subnormal halves: the mantissa below an exponent of 2^-14, from which that power is subtracted.
    const float shifted = __builtin_bit_cast(float, magnitude + (113u << 23)) - 0x1p-14f;
    uint32_t u = magnitude >= (31u << 23) ? special : normal;
    u = magnitude < (1u << 23) ? __builtin_bit_cast(uint32_t, shifted) : u;
    return __builtin_bit_cast(float, u | static_cast<uint32_t>(bits & 0x8000u) << 16);
  }
};

}  // namespace tessera
