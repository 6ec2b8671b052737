// Comparison operators of setp and set.
#pragma once

#include <cstdint>
#include <string_view>

#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/half/formats.h"
#include "tools/cuda_sim/instructions/lanes.h"
#include "tools/cuda_sim/instructions/rounding.h"

namespace tessera::cuda_sim {

// PTX ISA, "Comparisons". The ones ending in u are true where an operand is NaN.
inline constexpr auto is_equal = [](auto a, auto b) { return a == b; };
inline constexpr auto is_not_equal = [](auto a, auto b) { return a < b || a > b; };
inline constexpr auto is_less = [](auto a, auto b) { return a < b; };
inline constexpr auto is_less_or_equal = [](auto a, auto b) { return a <= b; };
inline constexpr auto is_greater = [](auto a, auto b) { return a > b; };
inline constexpr auto is_greater_or_equal = [](auto a, auto b) { return a >= b; };
inline constexpr auto is_equal_or_nan = [](auto a, auto b) { return !(a < b || a > b); };
inline constexpr auto is_not_equal_or_nan = [](auto a, auto b) { return a != b; };
inline constexpr auto is_less_or_nan = [](auto a, auto b) { return !(a >= b); };
inline constexpr auto is_less_equal_or_nan = [](auto a, auto b) { return !(a > b); };
inline constexpr auto is_greater_or_nan = [](auto a, auto b) { return !(a <= b); };
inline constexpr auto is_greater_equal_or_nan = [](auto a, auto b) { return !(a < b); };
inline constexpr auto are_numbers = [](auto a, auto b) { return a == a && b == b; };
inline constexpr auto is_any_nan = [](auto a, auto b) { return a != a || b != b; };

/// How an operand is read: as it is, flushed, or a 16-bit float (`part` 1: the upper half of a packed one).
template <class T>
struct Plain {
  using Register = T;
  static T read(T value, int) { return value; }
};
struct Flushed {
  using Register = float;
  static float read(float value, int) { return flush(value); }
};
template <class Format, class RegisterType, bool flushes>
struct HalfOperand {
  using Register = RegisterType;
  static float read(Register value, int part) {
    const auto bits = static_cast<uint16_t>(static_cast<uint32_t>(value) >> (16 * part));
    return Format::to_float(flushes ? flush_half<Format>(bits) : bits);
  }
};

/// The lanes where op(a, b) holds.
template <class Reader, auto op>
LaneMask compare(Warp& warp, const Instruction& instruction, int part) {
  const auto* const a = warp.values<typename Reader::Register>(instruction.source[0]);
  const auto* const b = warp.values<typename Reader::Register>(instruction.source[1]);
  return lanes_where([=](int lane) { return op(Reader::read(a[lane], part), Reader::read(b[lane], part)); });
}

/// make.operator()<Reader>() for the type of the operands.
template <class Make>
Execute for_reader(Type type, bool flushes, Make make) {
  switch (type) {
    case Type::f32:
      return flushes ? make.template operator()<Flushed>() : make.template operator()<Plain<float>>();
    case Type::f64:
      return make.template operator()<Plain<double>>();
    case Type::f16:
      return flushes ? make.template operator()<HalfOperand<Half, uint16_t, true>>()
                     : make.template operator()<HalfOperand<Half, uint16_t, false>>();
    case Type::f16x2:
      return flushes ? make.template operator()<HalfOperand<Half, uint32_t, true>>()
                     : make.template operator()<HalfOperand<Half, uint32_t, false>>();
    case Type::bf16:
      return make.template operator()<HalfOperand<BFloat, uint16_t, false>>();
    case Type::bf16x2:
      return make.template operator()<HalfOperand<BFloat, uint32_t, false>>();
    default:
      return for_integer(type,
                         [make]<class T>(T) -> Execute { return make.template operator()<Plain<T>>(); });
  }
}

/// make.operator()<op>() for the operator among the modifiers; null where there is none for the type.
template <class Make>
Execute for_comparison(const DecodeContext& context, Type type, Make make) {
  if (context.has("eq")) return make.template operator()<is_equal>();
  if (context.has("ne")) return make.template operator()<is_not_equal>();
  if (context.has("lt") || context.has("lo")) return make.template operator()<is_less>();
  if (context.has("le") || context.has("ls")) return make.template operator()<is_less_or_equal>();
  if (context.has("gt") || context.has("hi")) return make.template operator()<is_greater>();
  if (context.has("ge") || context.has("hs")) return make.template operator()<is_greater_or_equal>();
  if (!is_float(type)) return nullptr;
  if (context.has("equ")) return make.template operator()<is_equal_or_nan>();
  if (context.has("neu")) return make.template operator()<is_not_equal_or_nan>();
  if (context.has("ltu")) return make.template operator()<is_less_or_nan>();
  if (context.has("leu")) return make.template operator()<is_less_equal_or_nan>();
  if (context.has("gtu")) return make.template operator()<is_greater_or_nan>();
  if (context.has("geu")) return make.template operator()<is_greater_equal_or_nan>();
  if (context.has("num")) return make.template operator()<are_numbers>();
  if (context.has("nan")) return make.template operator()<is_any_nan>();
  return nullptr;
}

}  // namespace tessera::cuda_sim
