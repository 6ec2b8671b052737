// cvt to f16, bf16, tf32 and to packed formats.
#include <cmath>
#include <type_traits>

#include "tools/cuda_sim/instructions/convert/convert.h"
#include "tools/cuda_sim/instructions/convert/registers.h"
#include "tools/cuda_sim/instructions/convert/small_formats.h"
#include "tools/cuda_sim/instructions/half/formats.h"

namespace tessera::cuda_sim::conversion {

namespace {

/// Bits of `immediate` of these instructions.
constexpr int64_t saturates = 1, clamps_below = 2, stays_finite = 4, flushes = 8;

/// What an instruction does to a value before it is rounded.
double prepare(double x, int64_t flags) {
  if ((flags & flushes) != 0) x = flush(static_cast<float>(x));
  if ((flags & saturates) != 0) x = saturate(x);
  if ((flags & clamps_below) != 0 && x < 0) x = 0;
  return x;
}

double to_integral(double x, Integral rounding) {
  switch (rounding) {
    case Integral::nearest:
      return std::nearbyint(x);
    case Integral::zero:
      return std::trunc(x);
    case Integral::down:
      return std::floor(x);
    case Integral::up:
      return std::ceil(x);
    default:
      return x;
  }
}

// The usual conversions, vectorised: f32 to nearest, without more modifiers.
constexpr auto half_from_float = [](float a) { return Half::from_float(a); };
constexpr auto bfloat_from_float = [](float a) { return BFloat::from_float(a); };

/// .rn and .rna of tf32: rounded up at half a unit, .rn where the result is even. Infinities stay.
template <bool ties_away>
constexpr auto tf32_from_float = [](float a) {
  const auto bits = std::bit_cast<uint32_t>(a), magnitude = bits & 0x7fffffffu;
  const uint32_t half = ties_away ? 0x1000u : 0xfffu + (bits >> 13 & 1);
  const uint32_t rounded = (bits + half) & 0xffffe000u;
  return magnitude > 0x7f800000u ? 0x7fffffffu & 0xffffe000u : rounded;
};

struct OfFloat {
  using Register = float;
  static double read(float a) { return a; }
};
struct OfDouble {
  using Register = double;
  static double read(double a) { return a; }
};
template <class Small>
struct OfHalf {
  using Register = uint16_t;
  static double read(uint16_t a) { return Small::to_float(a); }
};
template <class T>
struct OfInteger {
  using Register = T;
  static double read(T a) { return to_odd_double(a); }
};

/// Any source, any modifiers. flags[0]: the rounding; `elements`: the rounding to an integral value.
template <class Source, Format format>
void execute(Warp& warp, const Instruction& instruction) {
  using S = typename Source::Register;
  alignas(64) S storage[warp_lanes];
  const S* const a = source_values(warp, instruction, storage);
  const auto rounding = static_cast<Rounding>(instruction.flags[0]);
  const auto integral = static_cast<Integral>(instruction.elements);
  const int64_t flags = instruction.immediate;
  // A tf32 is the upper part of a register of 32 bits.
  using Code = std::conditional_t<format.sign_bit == 18, uint32_t, uint16_t>;
  constexpr int shift = format.sign_bit == 18 ? 13 : 0;
  Code* const out = warp.values<Code>(instruction.destination[0]);
  for_active_lanes(warp, [&](int lane) {
    const double value = prepare(to_integral(Source::read(a[lane]), integral), flags);
    out[lane] = static_cast<Code>(encode(format, value, rounding, (flags & stays_finite) != 0) << shift);
  });
}

template <Format format>
Execute choose_source(Type from) {
  switch (from) {
    case Type::f32:
      return execute<OfFloat, format>;
    case Type::f64:
      return execute<OfDouble, format>;
    case Type::f16:
      return execute<OfHalf<Half>, format>;
    case Type::bf16:
      return execute<OfHalf<BFloat>, format>;
    default:
      return for_any_integer(from, []<class T>(T) -> Execute { return execute<OfInteger<T>, format>; });
  }
}

/// d = {code of a, code of b}: a is the upper half.
template <Format format>
void pack(Warp& warp, const Instruction& instruction) {
  const auto* const a = warp.values<float>(instruction.source[0]);
  const auto* const b = warp.values<float>(instruction.source[1]);
  const auto rounding = static_cast<Rounding>(instruction.flags[0]);
  const int64_t flags = instruction.immediate;
  using Packed = std::conditional_t<format.sign_bit == 7, uint16_t, uint32_t>;
  Packed* const out = warp.values<Packed>(instruction.destination[0]);
  for_active_lanes(warp, [&](int lane) {
    const bool finite = (flags & stays_finite) != 0;
    const uint32_t upper = encode(format, prepare(a[lane], flags), rounding, finite);
    const uint32_t lower = encode(format, prepare(b[lane], flags), rounding, finite);
    out[lane] = static_cast<Packed>(upper << (format.sign_bit + 1) | lower);
  });
}

/// The same to nearest without modifiers: what kernels use most.
template <class Small>
void pack_to_nearest(Warp& warp, const Instruction& instruction) {
  const auto* const a = warp.values<float>(instruction.source[0]);
  const auto* const b = warp.values<float>(instruction.source[1]);
  write_lanes<uint32_t>(warp, instruction.destination[0], [=](int lane) {
    return static_cast<uint32_t>(Small::from_float(a[lane])) << 16 | Small::from_float(b[lane]);
  });
}

/// Two codes of 8 bits of an f16x2.
template <Format format>
void pack_halves(Warp& warp, const Instruction& instruction) {
  const auto* const a = warp.values<uint32_t>(instruction.source[0]);
  const int64_t flags = instruction.immediate;
  auto* const out = warp.values<uint16_t>(instruction.destination[0]);
  for_active_lanes(warp, [&](int lane) {
    const double upper = prepare(Half::to_float(static_cast<uint16_t>(a[lane] >> 16)), flags);
    const double lower = prepare(Half::to_float(static_cast<uint16_t>(a[lane])), flags);
    out[lane] = static_cast<uint16_t>(encode(format, upper, Rounding::nearest, true) << 8 |
                                      encode(format, lower, Rounding::nearest, true));
  });
}

/// f16x2 of two codes of 8 bits: exact.
template <Format format>
void unpack_to_halves(Warp& warp, const Instruction& instruction) {
  const auto* const a = warp.values<uint16_t>(instruction.source[0]);
  const int64_t flags = instruction.immediate;
  auto* const out = warp.values<uint32_t>(instruction.destination[0]);
  for_active_lanes(warp, [&](int lane) {
    const auto half = [&](uint32_t code) {
      return Half::from_float(static_cast<float>(prepare(decode(format, code), flags)));
    };
    out[lane] = static_cast<uint32_t>(half(a[lane] >> 8u)) << 16 | half(a[lane] & 0xffu);
  });
}

Execute choose_packed(const DecodeContext& context) {
  const bool is_plain = rounding_of(context) == Rounding::nearest && small_float_flags(context) == 0;
  const Type to = context.type();
  const std::span<const std::string> modifiers = context.modifiers();
  const std::string& source = modifiers.back();
  const std::string& destination = modifiers[modifiers.size() - 2];
  if (source == "f32") {
    if (to == Type::f16x2) return is_plain ? pack_to_nearest<Half> : pack<f16_format>;
    if (to == Type::bf16x2) return is_plain ? pack_to_nearest<BFloat> : pack<bf16_format>;
    if (destination == "e4m3x2") return pack<e4m3_format>;
    if (destination == "e5m2x2") return pack<e5m2_format>;
  }
  if (source == "f16x2" && destination == "e4m3x2") return pack_halves<e4m3_format>;
  if (source == "f16x2" && destination == "e5m2x2") return pack_halves<e5m2_format>;
  if (source == "e4m3x2" && destination == "f16x2") return unpack_to_halves<e4m3_format>;
  if (source == "e5m2x2" && destination == "f16x2") return unpack_to_halves<e5m2_format>;
  return nullptr;
}

}  // namespace

int64_t small_float_flags(const DecodeContext& context) {
  return (context.has("sat") ? saturates : 0) | (context.has("relu") ? clamps_below : 0) |
         (context.has("satfinite") ? stays_finite : 0) | (context.has("ftz") ? flushes : 0);
}

Execute to_small_float(const DecodeContext& context, Type to, Type from) {
  const bool is_plain = rounding_of(context) == Rounding::nearest && small_float_flags(context) == 0;
  if (to == Type::tf32 && from == Type::f32 && small_float_flags(context) == 0) {
    if (is_plain) return convert<uint32_t, float, tf32_from_float<false>>;
    if (context.has("rna")) return convert<uint32_t, float, tf32_from_float<true>>;
  }
  if (from == Type::f32 && is_plain && integral_rounding(context) == Integral::none) {
    if (to == Type::f16) return convert<uint16_t, float, half_from_float>;
    if (to == Type::bf16) return convert<uint16_t, float, bfloat_from_float>;
  }
  if (to == Type::f16) return choose_source<f16_format>(from);
  if (to == Type::bf16) return choose_source<bf16_format>(from);
  return from == Type::f32 ? execute<OfFloat, tf32_format> : nullptr;
}

bool is_packed_form(const DecodeContext& context) {
  return is_packed(context.type()) || context.has("e4m3x2") || context.has("e5m2x2");
}

// "cvt": .rn and .rz of f16x2 and bf16x2, {.relu}{.satfinite}; .rn.satfinite{.relu} of e4m3x2 and e5m2x2;
// .rn{.relu}.f16x2 of those.
void decode_packed(DecodeContext& context) {
  allow_modifiers(context, {"rn", "rz", "relu", "satfinite", "e4m3x2", "e5m2x2"});
  set_execute(context, choose_packed(context));
  Instruction& result = context.result();
  const bool has_two = context.modifiers().back() == "f32";
  expect_operands(context, has_two ? 3 : 2);
  result.destination[0] = context.destination(0);
  if (has_two) {
    result.source[0] = context.source(1, Type::f32);
    result.source[1] = context.source(2, Type::f32);
  } else {
    result.source[0] = context.source(1, context.modifiers().back() == "f16x2" ? Type::b32 : Type::b16);
  }
  result.flags[0] = static_cast<uint8_t>(rounding_of(context));
  result.immediate = small_float_flags(context);
}

}  // namespace tessera::cuda_sim::conversion
