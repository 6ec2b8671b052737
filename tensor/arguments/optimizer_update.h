#pragma once

#include <array>
#include <string_view>

#include "tensor/elementwise/update_rule.h"
#include "tensor/profile/operand_bytes.h"
#include "tensor/tensor.h"

namespace tessera::ops {

/// One parameter of a fused update, with its optimizer state. All tensors are contiguous.
struct UpdateItem {
  /// f32 or f64.
  Tensor parameter = {};
  /// The parameter's shape; its dtype, or bf16 or f16 for an f32 parameter. Undefined: the item is skipped
  /// and its step stays.
  Tensor gradient = {};
  /// 0-dim i64: the number of updates so far. The update increments it before use.
  Tensor step = {};
  /// The parameter's shape and dtype, in the order of the rule; unused ones are undefined.
  std::array<Tensor, elementwise::max_update_states> state = {};
  /// bf16 or f16: receives the updated f32 parameter, rounded, in the same pass. May be undefined.
  Tensor rounded = {};
  /// The index of the group with the options.
  int group = 0;
  /// The parameter's name, for error messages; it must outlive the call.
  std::string_view name = {};
};
/// Parameter and state are read and written.
inline int64_t operand_bytes(const UpdateItem& item) {
  if (!item.gradient.defined()) return 0;
  return operand_bytes(item.gradient) +
         2 * bytes_of_operands(item.parameter, item.state[0], item.state[1], item.state[2]);
}

/// Parameters that share options. `Rule`: one of tensor/elementwise/update_rules.h.
template <class Rule>
struct UpdateGroup {
  /// 0-dim f64, read when the update runs.
  Tensor lr;
  /// The rule with its options, by which the group's parameters are updated.
  Rule rule;
};

}  // namespace tessera::ops
