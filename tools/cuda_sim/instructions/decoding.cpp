#include "tools/cuda_sim/instructions/decoding.h"

#include <algorithm>

namespace tessera::cuda_sim {

void allow_modifiers(const DecodeContext& context, std::initializer_list<std::string_view> allowed) {
  for (const std::string& modifier : context.modifiers()) {
    const bool is_known = type_named(modifier) != Type::none ||
                          std::find(allowed.begin(), allowed.end(), modifier) != allowed.end();
    if (!is_known) context.unknown("modifier ." + modifier);
  }
}

void expect_operands(const DecodeContext& context, int count) {
  if (context.operand_count() != count)
    context.unknown(std::to_string(context.operand_count()) + " operands, expected " + std::to_string(count));
}

void set_execute(DecodeContext& context, Execute execute) {
  if (execute == nullptr) context.unknown("type");
  context.result().execute = execute;
}

void decode_same_type(DecodeContext& context, int sources, Type type, Execute execute) {
  expect_operands(context, sources + 1);
  set_execute(context, execute);
  Instruction& result = context.result();
  result.type = type;
  result.destination[0] = context.destination(0);
  for (int i = 0; i < sources; ++i) result.source[static_cast<size_t>(i)] = context.source(i + 1, type);
}

}  // namespace tessera::cuda_sim
