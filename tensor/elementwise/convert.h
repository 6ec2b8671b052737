#pragma once  // internal

#include "tensor/elementwise/target.h"

/// Conversions between element types. The 16-bit formats are plain bits here, with the rounding of
/// tensor/types/float_types.h (to nearest, ties to even), in a form that vectorizes.
TESSERA_ELEMENTWISE_BEGIN

/// The bits of a bfloat16.
struct Bf16 {
  uint16_t bits;
};
/// The bits of an IEEE binary16.
struct F16 {
  uint16_t bits;
};

TESSERA_ELEMENT float to_f32(Bf16 x) {
  return from_bits(static_cast<uint32_t>(x.bits) << 16);
}
TESSERA_ELEMENT Bf16 to_bf16(float x) {
  const uint32_t u = bits_of(x);
  const uint32_t rounded = u + 0x7fffu + ((u >> 16) & 1u);
  const uint32_t chosen = (u & 0x7fffffffu) > 0x7f800000u ? u | 0x400000u : rounded;
  return {static_cast<uint16_t>(chosen >> 16)};
}

/// Exponents are rebiased by integer arithmetic; a subnormal half becomes a float by a subtraction of normal
/// numbers, so that flushed denormals change nothing.
TESSERA_ELEMENT float to_f32(F16 x) {
  const uint32_t magnitude = static_cast<uint32_t>(x.bits & 0x7fffu) << 13;
  const uint32_t normal = magnitude + (112u << 23);
  const uint32_t special = magnitude + (224u << 23);
  const uint32_t subnormal = bits_of(from_bits(magnitude + (113u << 23)) - 0x1p-14f);
  uint32_t u = magnitude >= (31u << 23) ? special : normal;
  u = magnitude < (1u << 23) ? subnormal : u;
  return from_bits(u | static_cast<uint32_t>(x.bits & 0x8000u) << 16);
}
TESSERA_ELEMENT F16 to_f16(float x) {
  const uint32_t u = bits_of(x), a = u & 0x7fffffffu;
  const uint32_t normal = (a - (112u << 23) + 0xfffu + ((a >> 13) & 1u)) >> 13;
  // Adding 0.5 puts the half's last place at the float's last place, and the adder rounds.
  const uint32_t subnormal = bits_of(from_bits(a < (113u << 23) ? a : 0u) + 0.5f) - 0x3f000000u;
  uint32_t h = a < (113u << 23) ? subnormal : normal;
  h = a >= 0x477ff000u ? 0x7c00u : h;
  h = a > 0x7f800000u ? 0x7e00u : h;
  return {static_cast<uint16_t>(h | ((u >> 16) & 0x8000u))};
}

/// The integer part of x, clamped to Int's range; 0 for NaN. (C++ leaves these cases undefined.)
template <class Int, class Float>
TESSERA_ELEMENT Int to_integer(Float x) {
  constexpr Float low = static_cast<Float>(
      static_cast<Int>(-1) < Int(0) ? -static_cast<Float>(uint64_t{1} << (8 * sizeof(Int) - 1)) : 0);
  constexpr Float limit =
      static_cast<Float>(static_cast<Int>(-1) < Int(0) ? uint64_t{1} << (8 * sizeof(Int) - 1) : 256);
  // The largest Float below the limit: limit - 1, or the limit's predecessor where Float is coarser than 1.
  constexpr Float high = limit - Float(1) < limit
                             ? limit - Float(1)
                             : limit * (Float(1) - (sizeof(Float) == 4 ? Float(0x1p-24) : Float(0x1p-53)));
  Float bounded = x == x ? x : Float(0);
  bounded = bounded < low ? low : bounded;
  bounded = bounded > high ? high : bounded;
  return static_cast<Int>(bounded);
}

TESSERA_ELEMENTWISE_END
