// PTX ISA, "Integer Arithmetic Instructions": add, min, max of u16x2 and s16x2; min.relu and max.relu of s32.
#include <algorithm>

#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/integer/integer.h"
#include "tools/cuda_sim/instructions/lanes.h"

namespace tessera::cuda_sim::integer {

namespace {

constexpr auto add = [](int32_t a, int32_t b) { return a + b; };
constexpr auto least = [](int32_t a, int32_t b) { return std::min(a, b); };
constexpr auto greatest = [](int32_t a, int32_t b) { return std::max(a, b); };
/// .relu: a negative result becomes 0.
constexpr auto least_or_zero = [](int32_t a, int32_t b) { return std::max(std::min(a, b), 0); };
constexpr auto greatest_or_zero = [](int32_t a, int32_t b) { return std::max(std::max(a, b), 0); };

/// op of both halves of a register, which hold T.
template <class T, auto op>
constexpr auto of_pairs = [](uint32_t a, uint32_t b) {
  const auto lower = static_cast<uint16_t>(op(static_cast<T>(a), static_cast<T>(b)));
  const auto upper = static_cast<uint16_t>(op(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
  return static_cast<uint32_t>(upper) << 16 | lower;
};

template <auto op>
Execute pairs(const DecodeContext& context) {
  return context.has("s16x2") ? binary<uint32_t, of_pairs<int16_t, op>>
                              : binary<uint32_t, of_pairs<uint16_t, op>>;
}

void decode_extreme(DecodeContext& context, Execute plain, Execute with_relu) {
  const bool has_relu = context.has("relu");
  if (has_relu && context.has("u16x2")) context.unknown("modifier .relu");
  decode_same_type(context, 2, Type::b32, has_relu ? with_relu : plain);
}

}  // namespace

void decode_add_pairs(DecodeContext& context) {
  allow_modifiers(context, {"u16x2", "s16x2"});
  decode_same_type(context, 2, Type::b32, pairs<add>(context));
}

void decode_minimum_pairs(DecodeContext& context) {
  allow_modifiers(context, {"u16x2", "s16x2", "relu"});
  decode_extreme(context, pairs<least>(context), pairs<least_or_zero>(context));
}

void decode_maximum_pairs(DecodeContext& context) {
  allow_modifiers(context, {"u16x2", "s16x2", "relu"});
  decode_extreme(context, pairs<greatest>(context), pairs<greatest_or_zero>(context));
}

void decode_minimum_relu(DecodeContext& context) {
  decode_same_type(context, 2, Type::s32, binary<int32_t, least_or_zero>);
}

void decode_maximum_relu(DecodeContext& context) {
  decode_same_type(context, 2, Type::s32, binary<int32_t, greatest_or_zero>);
}

}  // namespace tessera::cuda_sim::integer
