// The parts of cvt. Each gives the execution for its types and modifiers; null where there is none.
#pragma once

#include "tools/cuda_sim/instructions/decoding.h"

namespace tessera::cuda_sim::conversion {

/// .rni, .rzi, .rmi, .rpi: to an integral value. `none`: not at all.
enum class Integral : uint8_t { none, nearest, zero, down, up };
Integral integral_rounding(const DecodeContext& context);

/// Between integers; .sat clamps.
Execute between_integers(Type to, Type from, bool saturates);
/// Floating-point to integer: clamped, NaN as the ISA says.
Execute to_integer(Type to, Type from, Integral rounding, bool flushes);
/// To f32 and f64 from anything. A directed rounding is in flags[0].
Execute to_float(const DecodeContext& context, Type to, Type from);
/// To f16, bf16 and tf32 from anything.
Execute to_small_float(const DecodeContext& context, Type to, Type from);
/// What these expect in `immediate`: .sat, .relu, .satfinite, .ftz.
int64_t small_float_flags(const DecodeContext& context);
/// The packed forms: f16x2 and bf16x2 of two f32, e4m3x2 and e5m2x2 from and to f16x2.
void decode_packed(DecodeContext& context);
bool is_packed_form(const DecodeContext& context);

/// make(T{}) for all integer types, those of 8 bits too.
template <class Make>
Execute for_any_integer(Type type, Make make) {
  if (type == Type::u8 || type == Type::b8) return make(uint8_t{});
  if (type == Type::s8) return make(int8_t{});
  return for_integer(type, make);
}

}  // namespace tessera::cuda_sim::conversion
