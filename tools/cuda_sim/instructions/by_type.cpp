// Opcodes that several kinds of types have: add.s32, add.f32 and add.f16x2 are three instructions.
#include <array>

#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/floating/floating.h"
#include "tools/cuda_sim/instructions/half/half.h"
#include "tools/cuda_sim/instructions/integer/integer.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim {

namespace {

/// Hands on to one of three decoders; null: there is no such instruction. With .cc to `carry`, of u16x2 and
/// s16x2 to `pairs`.
template <Decode for_integers, Decode for_floats, Decode for_halves, Decode carry = nullptr,
          Decode pairs = nullptr>
void by_type(DecodeContext& context) {
  const Type type = context.type();
  Decode decode = is_integer(type) ? for_integers : is_half(type) ? for_halves : for_floats;
  if (context.has("cc")) decode = carry;
  const bool are_pairs = context.has("u16x2") || context.has("s16x2");
  if (are_pairs) decode = pairs;
  if ((type == Type::none && !are_pairs) || type == Type::pred || decode == nullptr) context.unknown("type");
  decode(context);
}

constexpr std::array rows = {
    OpcodeRow{"add", by_type<integer::decode_add, floating::decode_add, half::decode_add,
                             integer::decode_add_carry_out, integer::decode_add_pairs>},
    OpcodeRow{"sub", by_type<integer::decode_subtract, floating::decode_subtract, half::decode_subtract,
                             integer::decode_subtract_carry_out>},
    OpcodeRow{"mul", by_type<integer::decode_multiply, floating::decode_multiply, half::decode_multiply>},
    OpcodeRow{"mad", by_type<integer::decode_multiply_add, floating::decode_fused_multiply_add, nullptr,
                             integer::decode_multiply_add_carry_out>},
    OpcodeRow{"fma", by_type<nullptr, floating::decode_fused_multiply_add, half::decode_fused_multiply_add>},
    OpcodeRow{"div", by_type<integer::decode_divide, floating::decode_divide, nullptr>},
    OpcodeRow{"abs", by_type<integer::decode_absolute, floating::decode_absolute, half::decode_absolute>},
    OpcodeRow{"neg", by_type<integer::decode_negate, floating::decode_negate, half::decode_negate>},
    OpcodeRow{"min", by_type<integer::decode_minimum, floating::decode_minimum, half::decode_minimum, nullptr,
                             integer::decode_minimum_pairs>},
    OpcodeRow{"max", by_type<integer::decode_maximum, floating::decode_maximum, half::decode_maximum, nullptr,
                             integer::decode_maximum_pairs>},
    OpcodeRow{"ex2", by_type<nullptr, floating::decode_exponential, half::decode_exponential>},
    OpcodeRow{"tanh", by_type<nullptr, floating::decode_tanh, half::decode_tanh>},
};

}  // namespace

std::span<const OpcodeRow> rows_by_type() {
  return rows;
}

}  // namespace tessera::cuda_sim
