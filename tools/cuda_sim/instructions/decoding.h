// What decoders share: choosing a template by type, and refusing what is not known.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "tools/cuda_sim/machine/decode_context.h"

namespace tessera::cuda_sim {

/// Refuses every modifier that is neither a type nor among `allowed`.
void allow_modifiers(const DecodeContext& context, std::initializer_list<std::string_view> allowed);

/// Refuses another number of operands.
void expect_operands(const DecodeContext& context, int count);

/// The instruction d = f(a, b, ...), all of one type: places and `execute`, which is refused where null.
void decode_same_type(DecodeContext& context, int sources, Type type, Execute execute);

/// Sets `execute`; null means a type that the instruction does not have.
void set_execute(DecodeContext& context, Execute execute);

/// make(T{}) with the C++ type of an integer type of PTX, b types being unsigned; null for others.
template <class Make>
Execute for_integer(Type type, Make make) {
  switch (type) {
    case Type::u16:
    case Type::b16:
      return make(uint16_t{});
    case Type::u32:
    case Type::b32:
      return make(uint32_t{});
    case Type::u64:
    case Type::b64:
      return make(uint64_t{});
    case Type::s16:
      return make(int16_t{});
    case Type::s32:
      return make(int32_t{});
    case Type::s64:
      return make(int64_t{});
    default:
      return nullptr;
  }
}

/// make(T{}) with the unsigned type of as many bytes.
template <class Make>
Execute for_bits(int bytes, Make make) {
  switch (bytes) {
    case 2:
      return make(uint16_t{});
    case 4:
      return make(uint32_t{});
    case 8:
      return make(uint64_t{});
    default:
      return nullptr;
  }
}

/// make(T{}) for f32 and f64; null for others.
template <class Make>
Execute for_float(Type type, Make make) {
  if (type == Type::f32) return make(float{});
  if (type == Type::f64) return make(double{});
  return nullptr;
}

/// Whether a type is one of those that hold integers or bits.
inline bool is_integer(Type type) {
  return type != Type::none && type != Type::pred && !is_float(type);
}

inline bool is_half(Type type) {
  return type == Type::f16 || type == Type::f16x2 || type == Type::bf16 || type == Type::bf16x2;
}

inline bool is_packed(Type type) {
  return type == Type::f16x2 || type == Type::bf16x2;
}

}  // namespace tessera::cuda_sim
