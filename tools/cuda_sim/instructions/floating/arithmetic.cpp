// PTX ISA, "Floating Point Instructions": add, sub, mul, fma, mad, div, rcp, sqrt, rsqrt, abs, neg, min, max,
// copysign, testp of f32 and f64.
#include <array>
#include <cmath>
#include <limits>

#include "tools/cuda_sim/instructions/floating/execute.h"
#include "tools/cuda_sim/instructions/floating/floating.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim::floating {

namespace {

constexpr auto add = [](auto a, auto b) { return a + b; };
constexpr auto subtract = [](auto a, auto b) { return a - b; };
constexpr auto multiply = [](auto a, auto b) { return a * b; };
constexpr auto fused = [](auto a, auto b, auto c) { return std::fma(a, b, c); };
constexpr auto divide = [](auto a, auto b) { return a / b; };
/// div.approx is a * (1/b) with a b above 2^126 of which the reciprocal is flushed: "for 2^126 < |b| < 2^128,
/// if a is infinity, div.approx.f32 returns NaN, otherwise it returns 0".
constexpr auto divide_approximately = [](float a, float b) {
  const float magnitude = std::fabs(b);
  const bool is_flushed = magnitude > 0x1p126f && magnitude <= std::numeric_limits<float>::max();
  return is_flushed ? a * std::copysign(0.0f, b) : a / b;
};
constexpr auto reciprocal = [](auto a) { return decltype(a){1} / a; };
constexpr auto square_root = [](auto a) { return std::sqrt(a); };
/// Within 1e-16 of the exact value before it is rounded.
constexpr auto reciprocal_root = [](auto a) {
  return static_cast<decltype(a)>(1.0 / std::sqrt(static_cast<double>(a)));
};
constexpr auto absolute = [](auto a) { return std::fabs(a); };
constexpr auto negate = [](auto a) { return -a; };
constexpr auto minimum = [](auto a, auto b) { return minimum_number(a, b); };
constexpr auto maximum = [](auto a, auto b) { return maximum_number(a, b); };
/// .NaN: NaN where one of the operands is.
constexpr auto minimum_or_nan = [](auto a, auto b) {
  return a != a || b != b ? canonical_nan<decltype(a)>() : minimum_number(a, b);
};
constexpr auto maximum_or_nan = [](auto a, auto b) {
  return a != a || b != b ? canonical_nan<decltype(a)>() : maximum_number(a, b);
};
/// .xorsign.abs: of the magnitudes; the sign is the product's.
template <auto choose_number>
constexpr auto with_product_sign = [](float a, float b) {
  const uint32_t sign = (std::bit_cast<uint32_t>(a) ^ std::bit_cast<uint32_t>(b)) & 0x80000000u;
  const float chosen = choose_number(std::fabs(a), std::fabs(b));
  return std::bit_cast<float>((std::bit_cast<uint32_t>(chosen) & 0x7fffffffu) | sign);
};
/// copysign d, a, b: the sign of a, the magnitude of b.
constexpr auto copy_sign = [](auto a, auto b) { return std::copysign(b, a); };

template <auto number, auto or_nan>
void decode_extreme(DecodeContext& context) {
  allow_modifiers(context, {"ftz", "NaN", "xorsign", "abs"});
  const bool propagates = context.has("NaN");
  if (context.has("xorsign")) {
    if (context.type() != Type::f32 || !context.has("abs")) context.unknown("modifier .xorsign");
    return propagates ? decode<with_product_sign<or_nan>, 2>(context)
                      : decode<with_product_sign<number>, 2>(context);
  }
  return propagates ? decode<or_nan, 2>(context) : decode<number, 2>(context);
}

}  // namespace

// "add", "sub", "mul": {.rnd}{.ftz}{.sat}.f32, {.rnd}.f64.
void decode_add(DecodeContext& context) {
  allow_modifiers(context, {"rn", "rz", "rm", "rp", "ftz", "sat"});
  decode<add, 2, 1, true>(context);
}

void decode_subtract(DecodeContext& context) {
  allow_modifiers(context, {"rn", "rz", "rm", "rp", "ftz", "sat"});
  decode<subtract, 2, 1, true>(context);
}

void decode_multiply(DecodeContext& context) {
  allow_modifiers(context, {"rn", "rz", "rm", "rp", "ftz", "sat"});
  decode<multiply, 2, 1, true>(context);
}

// "fma", and "mad" of floating-point types, which is the same since sm_20.
void decode_fused_multiply_add(DecodeContext& context) {
  allow_modifiers(context, {"rn", "rz", "rm", "rp", "ftz", "sat"});
  decode<fused, 3, 2, true>(context);
}

// "div": .approx and .full of f32 (at most 2 ulp on a card; correctly rounded here), .rnd of both.
void decode_divide(DecodeContext& context) {
  allow_modifiers(context, {"rn", "rz", "rm", "rp", "ftz", "approx", "full"});
  if (context.has("approx") || context.has("full")) {
    if (context.type() != Type::f32) context.unknown("modifier .approx");
    return context.has("approx") ? decode<divide_approximately, 2>(context) : decode<divide, 2>(context);
  }
  decode<divide, 2, 1, true>(context);
}

void decode_absolute(DecodeContext& context) {
  allow_modifiers(context, {"ftz"});
  decode<absolute, 1, 0>(context);
}

void decode_negate(DecodeContext& context) {
  allow_modifiers(context, {"ftz"});
  decode<negate, 1, 0>(context);
}

// "min", "max": {.ftz}{.NaN}{.xorsign.abs}.f32, .f64.
void decode_minimum(DecodeContext& context) {
  decode_extreme<minimum, minimum_or_nan>(context);
}

void decode_maximum(DecodeContext& context) {
  decode_extreme<maximum, maximum_or_nan>(context);
}

namespace {

/// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: of the upper 32 bits of the operand; the lower 32 of the
/// result are zero.
template <auto op>
constexpr auto of_upper_half = [](double a) {
  const double upper = std::bit_cast<double>(std::bit_cast<uint64_t>(a) & 0xffffffff00000000u);
  const double value = op(flush(upper));
  return flush(std::bit_cast<double>(std::bit_cast<uint64_t>(value) & 0xffffffff00000000u));
};

// "rcp": .approx{.ftz}.f32, .rnd{.ftz}.f32, .rnd.f64, .approx.ftz.f64.
void decode_reciprocal(DecodeContext& context) {
  allow_modifiers(context, {"rn", "rz", "rm", "rp", "ftz", "approx"});
  if (context.type() == Type::f64 && context.has("approx"))
    return decode_same_type(context, 1, Type::f64,
                            execute<double, of_upper_half<reciprocal>, 1, 1, Modifiers{}>);
  decode<reciprocal, 1, 1, true>(context);
}

// "sqrt": .approx{.ftz}.f32, .rnd{.ftz}.f32, .rnd.f64.
void decode_square_root(DecodeContext& context) {
  allow_modifiers(context, {"rn", "rz", "rm", "rp", "ftz", "approx"});
  if (context.type() == Type::f64 && context.has("approx")) context.unknown("modifier .approx");
  decode<square_root, 1, 1, true>(context);
}

// "rsqrt": .approx{.ftz}.f32, .approx{.ftz}.f64.
void decode_reciprocal_root(DecodeContext& context) {
  allow_modifiers(context, {"ftz", "approx"});
  if (context.type() == Type::f64 && context.has("ftz"))
    return decode_same_type(context, 1, Type::f64,
                            execute<double, of_upper_half<reciprocal_root>, 1, 1, Modifiers{}>);
  decode<reciprocal_root, 1>(context);
}

void decode_copy_sign(DecodeContext& context) {
  allow_modifiers(context, {});
  decode<copy_sign, 2, 0>(context);
}

constexpr auto is_finite = [](auto a) { return std::fabs(a) <= std::numeric_limits<decltype(a)>::max(); };
constexpr auto is_infinite = [](auto a) { return std::fabs(a) > std::numeric_limits<decltype(a)>::max(); };
constexpr auto is_number = [](auto a) { return a == a; };
constexpr auto is_not_a_number = [](auto a) { return a != a; };
constexpr auto is_normal = [](auto a) {
  return std::fabs(a) >= std::numeric_limits<decltype(a)>::min() &&
         std::fabs(a) <= std::numeric_limits<decltype(a)>::max();
};
constexpr auto is_subnormal = [](auto a) {
  return std::fabs(a) < std::numeric_limits<decltype(a)>::min() && a != 0;
};

template <class T, auto test>
void execute_test(Warp& warp, const Instruction& instruction) {
  const T* const a = warp.values<T>(instruction.source[0]);
  write_predicate(warp, instruction.destination[0], lanes_where([=](int lane) { return test(a[lane]); }));
}

template <auto test>
Execute test_of(Type type) {
  return for_float(type, []<class T>(T) -> Execute { return execute_test<T, test>; });
}

// "testp": .finite, .infinite, .number, .notanumber, .normal, .subnormal.
void decode_test(DecodeContext& context) {
  allow_modifiers(context, {"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  expect_operands(context, 2);
  const Type type = context.type();
  set_execute(context, context.has("finite")       ? test_of<is_finite>(type)
                       : context.has("infinite")   ? test_of<is_infinite>(type)
                       : context.has("number")     ? test_of<is_number>(type)
                       : context.has("notanumber") ? test_of<is_not_a_number>(type)
                       : context.has("normal")     ? test_of<is_normal>(type)
                                                   : test_of<is_subnormal>(type));
  context.result().destination[0] = context.destination(0);
  context.result().source[0] = context.source(1, type);
}

constexpr std::array rows = {
    OpcodeRow{"rcp", decode_reciprocal},
    OpcodeRow{"sqrt", decode_square_root},
    OpcodeRow{"rsqrt", decode_reciprocal_root},
    OpcodeRow{"copysign", decode_copy_sign},
    OpcodeRow{"testp", decode_test},
};

}  // namespace

}  // namespace tessera::cuda_sim::floating

namespace tessera::cuda_sim {

std::span<const OpcodeRow> floating_rows() {
  return floating::rows;
}

}  // namespace tessera::cuda_sim
