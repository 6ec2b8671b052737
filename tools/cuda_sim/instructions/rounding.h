// How floating-point instructions round, flush and saturate.
#pragma once

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tools/cuda_sim/machine/decode_context.h"

namespace tessera::cuda_sim {

/// PTX ISA, "Rounding Modifiers": .rn, .rz, .rm, .rp, and .rna (to nearest, ties away from zero).
enum class Rounding : uint8_t { nearest, zero, down, up, nearest_away };

/// The rounding modifier of an instruction; to nearest where it has none.
inline Rounding rounding_of(const DecodeContext& context) {
  if (context.has("rz")) return Rounding::zero;
  if (context.has("rm")) return Rounding::down;
  if (context.has("rp")) return Rounding::up;
  if (context.has("rna")) return Rounding::nearest_away;
  return Rounding::nearest;
}

/// Sets the processor's rounding mode while it lives. Values are read from registers after it and written
/// before its end, in calls that the compiler cannot see through; so no operation moves across.
class RoundingScope {
 public:
  explicit RoundingScope(Rounding rounding) : before_(std::fegetround()) {
    constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
    std::fesetround(modes[static_cast<int>(rounding)]);
  }
  ~RoundingScope() { std::fesetround(before_); }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  int before_;
};

/// The unsigned type of as many bits.
template <class T>
using BitsOf =
    std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;

/// .ftz: a subnormal becomes zero of its sign.
inline float flush(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}
inline double flush(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  return std::bit_cast<double>((bits & 0x7ff0000000000000u) == 0 ? bits & 0x8000000000000000u : bits);
}

/// .sat: clamps to [+0, 1]; a NaN becomes +0.
template <class T>
T saturate(T x) {
  return x > T{0} ? (x < T{1} ? x : T{1}) : T{0};
}

/// The NaN that instructions make which do not pass one on (PTX ISA, "min", "max", "cvt").
template <class T>
T canonical_nan() {
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<T>(uint32_t{0x7fffffff});
  else
    return std::bit_cast<T>(uint64_t{0x7fffffffffffffff});
}

/// min: the other operand where one is NaN; -0 is less than +0.
template <class T>
T minimum_number(T a, T b) {
  const T equal = std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) | std::bit_cast<BitsOf<T>>(b));
  const T ordered = a < b ? a : b < a ? b : equal;
  return a != a ? (b != b ? canonical_nan<T>() : b) : b != b ? a : ordered;
}
template <class T>
T maximum_number(T a, T b) {
  const T equal = std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) & std::bit_cast<BitsOf<T>>(b));
  const T ordered = a > b ? a : b > a ? b : equal;
  return a != a ? (b != b ? canonical_nan<T>() : b) : b != b ? a : ordered;
}

}  // namespace tessera::cuda_sim
