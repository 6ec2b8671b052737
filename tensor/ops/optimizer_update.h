#pragma once

#include <array>
#include <span>
#include <string_view>

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
  /// The parameter's shape and dtype, in the order given at the update; unused ones are undefined.
  std::array<Tensor, 3> state = {};
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

/// Options of an Adam group. `lr` is a 0-dim f64 Tensor, here and below, read when the update runs.
struct AdamGroup {
  Tensor lr;
  double beta1, beta2, eps, weight_decay;
  /// AdamW's decay of the parameter instead of Adam's in the gradient.
  bool decoupled;
  bool amsgrad;
};
struct SgdGroup {
  Tensor lr;
  double momentum, dampening, weight_decay;
  bool nesterov;
};
struct RmspropGroup {
  Tensor lr;
  double alpha, eps, weight_decay, momentum;
  bool centered;
};
struct AdagradGroup {
  Tensor lr;
  double lr_decay, eps, weight_decay;
};

// An update processes all items at once: one pass over parameter, gradient and state, one parallel region.
// `clip`: 0-dim f64, by which every gradient is multiplied as it is read; undefined for 1. An element's bits
// depend on its own values only: not on threads, position or processor. Each throws, naming the parameter,
// ValueError for an undefined operand, ShapeError for a shape that differs from the parameter's or is not
// contiguous, DTypeError for a dtype not named above, DeviceError for mixed devices; on meta nothing is
// computed.

/// state: exp_avg, exp_avg_sq, and max_exp_avg_sq in an amsgrad group.
void adam_update(std::span<const UpdateItem> items, std::span<const AdamGroup> groups, const Tensor& clip);
/// state: momentum_buffer in a group with momentum.
void sgd_update(std::span<const UpdateItem> items, std::span<const SgdGroup> groups, const Tensor& clip);
/// state: square_avg; momentum_buffer in a group with momentum; grad_avg in a centered group.
void rmsprop_update(std::span<const UpdateItem> items, std::span<const RmspropGroup> groups,
                    const Tensor& clip);
/// state: sum.
void adagrad_update(std::span<const UpdateItem> items, std::span<const AdagradGroup> groups,
                    const Tensor& clip);

}  // namespace tessera::ops
