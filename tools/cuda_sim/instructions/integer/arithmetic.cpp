// PTX ISA, "Integer Arithmetic Instructions": add, sub, mul, mad, mul24, mad24, sad, div, rem, abs, neg, min,
// max, dp4a, dp2a.
#include <algorithm>
#include <array>
#include <type_traits>

#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/integer/integer.h"
#include "tools/cuda_sim/instructions/lanes.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim::integer {

namespace {

/// Sums wrap: they are taken in the unsigned type.
template <class T>
using Unsigned = std::make_unsigned_t<T>;

constexpr auto add = []<class T>(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
};
constexpr auto subtract = []<class T>(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
};
/// "add.sat: limits the result to MININT..MAXINT"; s32 only.
constexpr auto add_saturated = [](int32_t a, int32_t b) {
  return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} + b, INT32_MIN, INT32_MAX));
};
constexpr auto subtract_saturated = [](int32_t a, int32_t b) {
  return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} - b, INT32_MIN, INT32_MAX));
};
constexpr auto low = []<class T>(T a, T b) { return multiply_low(a, b); };
constexpr auto high = []<class T>(T a, T b) { return multiply_high(a, b); };
constexpr auto low_add = []<class T>(T a, T b, T c) { return add(multiply_low(a, b), c); };
constexpr auto high_add = []<class T>(T a, T b, T c) { return add(multiply_high(a, b), c); };
constexpr auto high_add_saturated = [](int32_t a, int32_t b, int32_t c) {
  return add_saturated(multiply_high(a, b), c);
};
/// "Division by zero yields an unspecified, machine-specific value": all ones, as cards give.
constexpr auto divide = []<class T>(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return subtract(T{0}, a);  // the least value has no negative: it stays
  return static_cast<T>(a / b);
};
constexpr auto remainder = []<class T>(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return T{0};
  return static_cast<T>(a % b);
};
constexpr auto negate = []<class T>(T a) { return subtract(T{0}, a); };
constexpr auto absolute = []<class T>(T a) { return a < 0 ? subtract(T{0}, a) : a; };
constexpr auto minimum = []<class T>(T a, T b) { return a < b ? a : b; };
constexpr auto maximum = []<class T>(T a, T b) { return a > b ? a : b; };
constexpr auto sum_of_differences = []<class T>(T a, T b, T c) {
  return add(a < b ? subtract(b, a) : subtract(a, b), c);
};

/// mul24 and mad24 use the lowest 24 bits of a and b, signed or not.
constexpr auto lowest_24 = []<class T>(T a) {
  if constexpr (std::is_signed_v<T>)
    return static_cast<int64_t>(static_cast<int32_t>(a << 8) >> 8);
  else
    return static_cast<uint64_t>(a & 0xffffff);
};
constexpr auto low_24 = []<class T>(T a, T b) { return static_cast<T>(lowest_24(a) * lowest_24(b)); };
constexpr auto high_24 = []<class T>(T a, T b) { return static_cast<T>(lowest_24(a) * lowest_24(b) >> 16); };
constexpr auto low_24_add = []<class T>(T a, T b, T c) { return add(low_24(a, b), c); };
constexpr auto high_24_add = []<class T>(T a, T b, T c) { return add(high_24(a, b), c); };

template <auto op>
Execute binary_of(Type type) {
  return for_integer(type, []<class T>(T) -> Execute { return binary<T, op>; });
}
template <auto op>
Execute ternary_of(Type type) {
  return for_integer(type, []<class T>(T) -> Execute { return ternary<T, op>; });
}

/// mul.wide: d has twice the width of a and b.
template <class T, class Wide>
void multiply_wide(Warp& warp, const Instruction& instruction) {
  const T* const a = warp.values<T>(instruction.source[0]);
  const T* const b = warp.values<T>(instruction.source[1]);
  write_lanes<Wide>(warp, instruction.destination[0], [=](int lane) {
    return static_cast<Wide>(static_cast<Wide>(a[lane]) * static_cast<Wide>(b[lane]));
  });
}

/// mad.wide: c has twice the width too.
template <class T, class Wide>
void multiply_wide_add(Warp& warp, const Instruction& instruction) {
  const T* const a = warp.values<T>(instruction.source[0]);
  const T* const b = warp.values<T>(instruction.source[1]);
  const Wide* const c = warp.values<Wide>(instruction.source[2]);
  write_lanes<Wide>(warp, instruction.destination[0], [=](int lane) {
    return add(static_cast<Wide>(static_cast<Wide>(a[lane]) * static_cast<Wide>(b[lane])), c[lane]);
  });
}

/// The type of twice the width, and make(T{}, Wide{}).
template <class Make>
Execute for_widened(DecodeContext& context, Type& wide, Make make) {
  switch (context.type()) {
    case Type::u16:
      wide = Type::u32;
      return make(uint16_t{}, uint32_t{});
    case Type::s16:
      wide = Type::s32;
      return make(int16_t{}, int32_t{});
    case Type::u32:
      wide = Type::u64;
      return make(uint32_t{}, uint64_t{});
    case Type::s32:
      wide = Type::s64;
      return make(int32_t{}, int64_t{});
    default:
      context.unknown("type");
      return nullptr;
  }
}

}  // namespace

// "add", "sub": {.sat}.s32, or any integer type.
void decode_add(DecodeContext& context) {
  allow_modifiers(context, {"sat"});
  const Type type = context.type();
  const bool saturates = context.has("sat");
  if (saturates && type != Type::s32) context.unknown("modifier .sat");
  decode_same_type(context, 2, type, saturates ? binary<int32_t, add_saturated> : binary_of<add>(type));
}

void decode_subtract(DecodeContext& context) {
  allow_modifiers(context, {"sat"});
  const Type type = context.type();
  const bool saturates = context.has("sat");
  if (saturates && type != Type::s32) context.unknown("modifier .sat");
  decode_same_type(context, 2, type,
                   saturates ? binary<int32_t, subtract_saturated> : binary_of<subtract>(type));
}

// "mul": .lo, .hi or .wide.
void decode_multiply(DecodeContext& context) {
  allow_modifiers(context, {"lo", "hi", "wide"});
  const Type type = context.type();
  if (!context.has("wide"))
    return decode_same_type(context, 2, type,
                            context.has("hi") ? binary_of<high>(type) : binary_of<low>(type));
  Type wide = Type::none;
  const Execute execute = for_widened(
      context, wide, []<class T, class Wide>(T, Wide) -> Execute { return multiply_wide<T, Wide>; });
  decode_same_type(context, 2, type, execute);
}

// "mad": .lo, .hi, .wide, .hi.sat.s32.
void decode_multiply_add(DecodeContext& context) {
  allow_modifiers(context, {"lo", "hi", "wide", "sat"});
  const Type type = context.type();
  if (context.has("sat")) {
    if (type != Type::s32 || !context.has("hi")) context.unknown("modifier .sat");
    return decode_same_type(context, 3, type, ternary<int32_t, high_add_saturated>);
  }
  if (!context.has("wide"))
    return decode_same_type(context, 3, type,
                            context.has("hi") ? ternary_of<high_add>(type) : ternary_of<low_add>(type));
  Type wide = Type::none;
  const Execute execute = for_widened(
      context, wide, []<class T, class Wide>(T, Wide) -> Execute { return multiply_wide_add<T, Wide>; });
  decode_same_type(context, 3, type, execute);
  context.result().source[2] = context.source(3, wide);
}

void decode_divide(DecodeContext& context) {
  allow_modifiers(context, {});
  decode_same_type(context, 2, context.type(), binary_of<divide>(context.type()));
}

void decode_absolute(DecodeContext& context) {
  allow_modifiers(context, {});
  if (!is_signed(context.type())) context.unknown("type");
  decode_same_type(context, 1, context.type(),
                   for_integer(context.type(), []<class T>(T) -> Execute { return unary<T, absolute>; }));
}

void decode_negate(DecodeContext& context) {
  allow_modifiers(context, {});
  if (!is_signed(context.type())) context.unknown("type");
  decode_same_type(context, 1, context.type(),
                   for_integer(context.type(), []<class T>(T) -> Execute { return unary<T, negate>; }));
}

void decode_minimum(DecodeContext& context) {
  allow_modifiers(context, {"relu"});
  if (context.has("relu")) {
    if (context.type() != Type::s32) context.unknown("modifier .relu");
    return decode_minimum_relu(context);
  }
  decode_same_type(context, 2, context.type(), binary_of<minimum>(context.type()));
}

void decode_maximum(DecodeContext& context) {
  allow_modifiers(context, {"relu"});
  if (context.has("relu")) {
    if (context.type() != Type::s32) context.unknown("modifier .relu");
    return decode_maximum_relu(context);
  }
  decode_same_type(context, 2, context.type(), binary_of<maximum>(context.type()));
}

namespace {

void decode_remainder(DecodeContext& context) {
  allow_modifiers(context, {});
  decode_same_type(context, 2, context.type(), binary_of<remainder>(context.type()));
}

void decode_sum_of_differences(DecodeContext& context) {
  allow_modifiers(context, {});
  decode_same_type(context, 3, context.type(), ternary_of<sum_of_differences>(context.type()));
}

// "mul24": .lo or .hi of u32 and s32.
void decode_multiply_24(DecodeContext& context) {
  allow_modifiers(context, {"lo", "hi"});
  const bool is_signed_type = context.type() == Type::s32, is_high = context.has("hi");
  if (!is_signed_type && context.type() != Type::u32) context.unknown("type");
  decode_same_type(context, 2, context.type(),
                   is_signed_type ? (is_high ? binary<int32_t, high_24> : binary<int32_t, low_24>)
                                  : (is_high ? binary<uint32_t, high_24> : binary<uint32_t, low_24>));
}

// "mad24": as mul24, plus c.
void decode_multiply_24_add(DecodeContext& context) {
  allow_modifiers(context, {"lo", "hi"});
  const bool is_signed_type = context.type() == Type::s32, is_high = context.has("hi");
  if (!is_signed_type && context.type() != Type::u32) context.unknown("type");
  decode_same_type(context, 3, context.type(),
                   is_signed_type
                       ? (is_high ? ternary<int32_t, high_24_add> : ternary<int32_t, low_24_add>)
                       : (is_high ? ternary<uint32_t, high_24_add> : ternary<uint32_t, low_24_add>));
}

/// Byte i of a register, signed or not.
template <class Byte>
int32_t byte_of(uint32_t value, int i) {
  return static_cast<Byte>(value >> (8 * i));
}

/// dp4a: c + a.b over four bytes; A and B are the types of the bytes.
template <class A, class B>
constexpr auto dot_4 = [](uint32_t a, uint32_t b, uint32_t c) {
  int32_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += byte_of<A>(a, i) * byte_of<B>(b, i);
  return c + static_cast<uint32_t>(sum);
};

/// dp2a: c + a.b over the two 16-bit halves of a and two bytes of b, the lower or the upper ones.
template <class A, class B, int first>
constexpr auto dot_2 = [](uint32_t a, uint32_t b, uint32_t c) {
  int64_t sum = 0;
  for (int i = 0; i < 2; ++i) sum += int64_t{static_cast<A>(a >> (16 * i))} * byte_of<B>(b, first + i);
  return c + static_cast<uint32_t>(sum);
};

/// Index 0 to 3: the signs of the two types of dp4a.atype.btype.
size_t sign_pair(DecodeContext& context) {
  for (int i = 0; i < 2; ++i)
    if (context.type(i) != Type::u32 && context.type(i) != Type::s32) context.unknown("type");
  return (context.type(0) == Type::s32 ? 2 : 0) + (context.type(1) == Type::s32 ? 1 : 0);
}

void decode_dot_4(DecodeContext& context) {
  allow_modifiers(context, {});
  constexpr std::array<Execute, 4> executes = {
      ternary<uint32_t, dot_4<uint8_t, uint8_t>>, ternary<uint32_t, dot_4<uint8_t, int8_t>>,
      ternary<uint32_t, dot_4<int8_t, uint8_t>>, ternary<uint32_t, dot_4<int8_t, int8_t>>};
  decode_same_type(context, 3, Type::b32, executes[sign_pair(context)]);
}

void decode_dot_2(DecodeContext& context) {
  allow_modifiers(context, {"lo", "hi"});
  constexpr std::array<Execute, 4> lower = {
      ternary<uint32_t, dot_2<uint16_t, uint8_t, 0>>, ternary<uint32_t, dot_2<uint16_t, int8_t, 0>>,
      ternary<uint32_t, dot_2<int16_t, uint8_t, 0>>, ternary<uint32_t, dot_2<int16_t, int8_t, 0>>};
  constexpr std::array<Execute, 4> upper = {
      ternary<uint32_t, dot_2<uint16_t, uint8_t, 2>>, ternary<uint32_t, dot_2<uint16_t, int8_t, 2>>,
      ternary<uint32_t, dot_2<int16_t, uint8_t, 2>>, ternary<uint32_t, dot_2<int16_t, int8_t, 2>>};
  decode_same_type(context, 3, Type::b32, (context.has("hi") ? upper : lower)[sign_pair(context)]);
}

constexpr std::array rows = {
    OpcodeRow{"rem", decode_remainder},     OpcodeRow{"sad", decode_sum_of_differences},
    OpcodeRow{"mul24", decode_multiply_24}, OpcodeRow{"mad24", decode_multiply_24_add},
    OpcodeRow{"dp4a", decode_dot_4},        OpcodeRow{"dp2a", decode_dot_2},
};

}  // namespace

}  // namespace tessera::cuda_sim::integer

namespace tessera::cuda_sim {

std::span<const OpcodeRow> integer_rows() {
  return integer::rows;
}

}  // namespace tessera::cuda_sim
