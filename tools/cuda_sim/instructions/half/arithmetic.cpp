// PTX ISA, "Half Precision Floating Point Instructions": add, sub, mul, fma, neg, abs, min, max, tanh, ex2.
//
// An instruction computes exactly, or to more bits than it matters, in f32 or f64 and rounds once. A packed
// register is 64 values of 16 bits in a row, so both kinds run through the same loops.
#include <cmath>
#include <cstring>
#include <type_traits>

#include "tools/cuda_sim/instructions/counting.h"
#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/floating/approximations.h"
#include "tools/cuda_sim/instructions/half/formats.h"
#include "tools/cuda_sim/instructions/half/half.h"
#include "tools/cuda_sim/instructions/lanes.h"
#include "tools/cuda_sim/instructions/rounding.h"

namespace tessera::cuda_sim::half {

namespace {

/// flags[0] of an instruction.
enum Flag : uint8_t { flushes = 1, saturates = 2, clamps_below = 4 };

/// Sums of two are exact enough in f32: its 24 bits are twice 11 and two more. Products may fall below f32's
/// range, and a fused sum has more bits: those go through f64, where products are exact.
constexpr auto add = [](float a, float b) { return a + b; };
constexpr auto subtract = [](float a, float b) { return a - b; };
constexpr auto multiply = [](double a, double b) { return to_odd_float(a * b); };
constexpr auto fused = [](double a, double b, double c) { return to_odd_float(sum_to_odd(a * b, c)); };
constexpr auto minimum = [](float a, float b) { return minimum_number(a, b); };
constexpr auto maximum = [](float a, float b) { return maximum_number(a, b); };
constexpr auto minimum_or_nan = [](float a, float b) {
  return a != a || b != b ? canonical_nan<float>() : minimum_number(a, b);
};
constexpr auto maximum_or_nan = [](float a, float b) {
  return a != a || b != b ? canonical_nan<float>() : maximum_number(a, b);
};
constexpr auto exponential = [](float a) { return to_odd_float(floating::exp2_of(a)); };
constexpr auto hyperbolic_tangent = [](float a) { return to_odd_float(floating::tanh_of(a)); };

template <class Format, int values>
void read(Warp& warp, Place place, bool flush_them, float* out) {
  const uint16_t* const in = warp.values<uint16_t>(place);
  if (flush_them) {
    for (int i = 0; i < values; ++i) out[i] = Format::to_float(flush_half<Format>(in[i]));
  } else {
    for (int i = 0; i < values; ++i) out[i] = Format::to_float(in[i]);
  }
}

template <class Format, int values>
void write(Warp& warp, const Instruction& instruction, float* results) {
  const uint8_t flags = instruction.flags[0];
  if ((flags & saturates) != 0)
    for (int i = 0; i < values; ++i) results[i] = saturate(results[i]);
  if ((flags & clamps_below) != 0)  // .relu: a NaN stays
    for (int i = 0; i < values; ++i) results[i] = results[i] < 0 ? 0 : results[i];
  alignas(64) uint16_t bits[values];
  for (int i = 0; i < values; ++i) bits[i] = Format::from_float(results[i]);
  if ((flags & flushes) != 0)
    for (int i = 0; i < values; ++i) bits[i] = flush_half<Format>(bits[i]);
  using Register = std::conditional_t<values == warp_lanes, uint16_t, uint32_t>;
  alignas(64) Register whole[warp_lanes];
  std::memcpy(whole, bits, sizeof bits);
  write_lanes<Register>(warp, instruction.destination[0], [&](int lane) { return whole[lane]; });
}

template <class Format, bool is_packed_type, auto op, int sources, int operations>
void execute(Warp& warp, const Instruction& instruction) {
  constexpr int values = is_packed_type ? 2 * warp_lanes : warp_lanes;
  if (operations != 0) count_lanes<&KernelCounters::flops_f16>(warp, operations * values / warp_lanes);
  const bool flush_them = (instruction.flags[0] & flushes) != 0;
  alignas(64) float a[values], b[values], c[values], results[values];
  read<Format, values>(warp, instruction.source[0], flush_them, a);
  if constexpr (sources > 1) read<Format, values>(warp, instruction.source[1], flush_them, b);
  if constexpr (sources > 2) read<Format, values>(warp, instruction.source[2], flush_them, c);
  for (int i = 0; i < values; ++i) {
    if constexpr (sources == 1) results[i] = op(a[i]);
    if constexpr (sources == 2) results[i] = op(a[i], b[i]);
    if constexpr (sources == 3) results[i] = op(a[i], b[i], c[i]);
  }
  write<Format, values>(warp, instruction, results);
}

template <auto op, int sources, int operations>
Execute choose(Type type) {
  switch (type) {
    case Type::f16:
      return execute<Half, false, op, sources, operations>;
    case Type::f16x2:
      return execute<Half, true, op, sources, operations>;
    case Type::bf16:
      return execute<BFloat, false, op, sources, operations>;
    case Type::bf16x2:
      return execute<BFloat, true, op, sources, operations>;
    default:
      return nullptr;
  }
}

template <auto op, int sources, int operations = 1>
void decode(DecodeContext& context) {
  decode_same_type(context, sources, context.type(), choose<op, sources, operations>(context.type()));
  context.result().flags[0] =
      static_cast<uint8_t>((context.has("ftz") ? flushes : 0) | (context.has("sat") ? saturates : 0) |
                           (context.has("relu") ? clamps_below : 0));
}

/// neg and abs change one bit of each value.
template <class Format, class Register, bool is_absolute, bool flush_them>
void change_sign(Warp& warp, const Instruction& instruction) {
  const Register* const a = warp.values<Register>(instruction.source[0]);
  constexpr auto sign = static_cast<Register>(0x80008000u);
  write_lanes<Register>(warp, instruction.destination[0], [=](int lane) {
    Register bits = a[lane];
    if constexpr (flush_them) {
      if constexpr (sizeof(Register) == 4)
        bits = flush_half<Format>(static_cast<uint16_t>(bits)) |
               static_cast<uint32_t>(flush_half<Format>(static_cast<uint16_t>(bits >> 16))) << 16;
      else
        bits = flush_half<Format>(bits);
    }
    return static_cast<Register>(is_absolute ? bits & ~sign : bits ^ sign);
  });
}

template <bool is_absolute>
void decode_sign(DecodeContext& context) {
  allow_modifiers(context, {"ftz"});
  const Type type = context.type();
  const bool flush_them = context.has("ftz");
  if (flush_them && type != Type::f16 && type != Type::f16x2) context.unknown("modifier .ftz");
  decode_same_type(context, 1, type,
                   is_packed(type) ? (flush_them ? change_sign<Half, uint32_t, is_absolute, true>
                                                 : change_sign<Half, uint32_t, is_absolute, false>)
                                   : (flush_them ? change_sign<Half, uint16_t, is_absolute, true>
                                                 : change_sign<Half, uint16_t, is_absolute, false>));
}

}  // namespace

// "add", "sub", "mul": {.rn}{.ftz}{.sat} of f16, {.rn} of bf16.
void decode_add(DecodeContext& context) {
  allow_modifiers(context, {"rn", "ftz", "sat"});
  decode<add, 2>(context);
}

void decode_subtract(DecodeContext& context) {
  allow_modifiers(context, {"rn", "ftz", "sat"});
  decode<subtract, 2>(context);
}

void decode_multiply(DecodeContext& context) {
  allow_modifiers(context, {"rn", "ftz", "sat"});
  decode<multiply, 2>(context);
}

// "fma": .rn{.ftz}{.sat} or {.relu}.
void decode_fused_multiply_add(DecodeContext& context) {
  allow_modifiers(context, {"rn", "ftz", "sat", "relu"});
  decode<fused, 3, 2>(context);
}

void decode_absolute(DecodeContext& context) {
  decode_sign<true>(context);
}

void decode_negate(DecodeContext& context) {
  decode_sign<false>(context);
}

// "min", "max": {.ftz}{.NaN}.
void decode_minimum(DecodeContext& context) {
  allow_modifiers(context, {"ftz", "NaN"});
  context.has("NaN") ? decode<minimum_or_nan, 2>(context) : decode<minimum, 2>(context);
}

void decode_maximum(DecodeContext& context) {
  allow_modifiers(context, {"ftz", "NaN"});
  context.has("NaN") ? decode<maximum_or_nan, 2>(context) : decode<maximum, 2>(context);
}

// "ex2.approx", "tanh.approx" of the half types.
void decode_exponential(DecodeContext& context) {
  allow_modifiers(context, {"approx", "ftz"});
  decode<exponential, 1>(context);
}

void decode_tanh(DecodeContext& context) {
  allow_modifiers(context, {"approx"});
  decode<hyperbolic_tangent, 1>(context);
}

}  // namespace tessera::cuda_sim::half
