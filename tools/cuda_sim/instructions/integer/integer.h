// Decoders of the integer forms of opcodes that floating-point types have too.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tools/cuda_sim/machine/decode_context.h"

namespace tessera::cuda_sim::integer {

void decode_add(DecodeContext& context);
void decode_subtract(DecodeContext& context);
void decode_multiply(DecodeContext& context);
void decode_multiply_add(DecodeContext& context);
void decode_divide(DecodeContext& context);
void decode_absolute(DecodeContext& context);
void decode_negate(DecodeContext& context);
void decode_minimum(DecodeContext& context);
void decode_maximum(DecodeContext& context);

/// add.cc, sub.cc, mad.lo.cc, mad.hi.cc: the carry out is written.
void decode_add_carry_out(DecodeContext& context);
void decode_subtract_carry_out(DecodeContext& context);
void decode_multiply_add_carry_out(DecodeContext& context);

/// add, min, max of u16x2 and s16x2; min.relu and max.relu of s32.
void decode_add_pairs(DecodeContext& context);
void decode_minimum_pairs(DecodeContext& context);
void decode_maximum_pairs(DecodeContext& context);
void decode_minimum_relu(DecodeContext& context);
void decode_maximum_relu(DecodeContext& context);

/// The upper half of the product of twice the width.
template <class T>
T multiply_high(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    __extension__ using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b) >> 64);
  } else {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b) >> (8 * sizeof(T)));
  }
}

/// The lower half of the product: for every type the unsigned one, which wraps.
template <class T>
T multiply_low(T a, T b) {
  using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  return static_cast<T>(static_cast<Wrapping>(a) * static_cast<Wrapping>(b));
}

}  // namespace tessera::cuda_sim::integer
