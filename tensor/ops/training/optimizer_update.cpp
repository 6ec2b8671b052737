#include "tensor/ops/training/optimizer_update.h"

#include "tensor/cpu/training/optimizer_update.h"
#include "tensor/cuda/training/optimizer_update.h"
#include "tensor/elementwise/update_rules.h"
#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"

namespace tessera::ops {
namespace {

/// The beginning of an error message about an item; the text is made only when there is an error.
struct Subject {
  const char* where;
  const UpdateItem& item;
};
std::string to_string(const Subject& subject) {
  return text(subject.where, ": parameter '", subject.item.name, "'");
}

void require_like(const char* where, const UpdateItem& item, const char* role, const Tensor& tensor) {
  require<ValueError>(tensor.defined(), Subject{where, item}, ": its ", role, " is undefined");
  require<ShapeError>(tensor.shape() == item.parameter.shape() && tensor.is_contiguous(),
                      Subject{where, item}, ": expected a contiguous ", role, " of shape ",
                      item.parameter.shape(), ", got ", describe(tensor), " with strides ", tensor.strides());
}

void check_gradient(const char* where, const UpdateItem& item) {
  require_like(where, item, "gradient", item.gradient);
  const DType wide = item.parameter.dtype(), dtype = item.gradient.dtype();
  const bool narrow = wide == f32 && (dtype == bf16 || dtype == f16);
  require<DTypeError>(dtype == wide || narrow, Subject{where, item}, ": expected a gradient of dtype ", wide,
                      wide == f32 ? ", bf16 or f16" : "", ", got ", describe(item.gradient));
}

void check_rounded(const char* where, const UpdateItem& item) {
  if (!item.rounded.defined()) return;
  require_like(where, item, "rounded copy", item.rounded);
  const DType dtype = item.rounded.dtype();
  require<DTypeError>(item.parameter.dtype() == f32 && (dtype == bf16 || dtype == f16), Subject{where, item},
                      ": expected a bf16 or f16 copy of an f32 parameter, got ", describe(item.rounded),
                      " of ", describe(item.parameter));
  common_device(where, {&item.parameter, &item.rounded});
}

/// Tensors that an update writes may not overlap the others. The gradient is read element by element, so it
/// may be the parameter itself.
void check_memory(const char* where, const UpdateItem& item) {
  struct Operand {
    const char* role;
    const Tensor& tensor;
  };
  constexpr size_t value = 0, gradient = 5, written = 5;
  const Operand operands[] = {
      {"value", item.parameter}, {"state", item.state[0]},       {"state", item.state[1]},
      {"state", item.state[2]},  {"rounded copy", item.rounded}, {"gradient", item.gradient},
      {"step", item.step}};
  for (size_t i = 0; i < written; ++i)
    for (size_t j = i + 1; j < std::size(operands); ++j) {
      const auto& [role, tensor] = operands[i];
      const auto& [other_role, other] = operands[j];
      if (!tensor.defined() || !other.defined()) continue;
      const Overlap overlap = overlap_of(tensor, other);
      const bool allowed = i == value && j == gradient && overlap == Overlap::same;
      require<ValueError>(overlap == Overlap::none || allowed, Subject{where, item}, ": its ", role, " ",
                          describe(tensor), " overlaps its ", other_role, " ", describe(other));
    }
}

/// Which states a variant of a rule has.
using HasState = bool (*)(unsigned variant, int k);

Device check_item(const char* where, const UpdateItem& item, HasState has_state, unsigned variant) {
  const Tensor& parameter = item.parameter;
  require_like(where, item, "value", parameter);
  require<DTypeError>(parameter.dtype() == f32 || parameter.dtype() == f64, Subject{where, item},
                      ": expected f32 or f64, got ", describe(parameter));
  check_gradient(where, item);
  check_rounded(where, item);
  require<DTypeError>(item.step.defined() && item.step.dtype() == i64 && item.step.numel() == 1,
                      Subject{where, item}, ": expected a step of one i64, got ", describe(item.step));
  Device device = common_device(where, {&parameter, &item.gradient});
  for (int k = 0; k < elementwise::max_update_states; ++k) {
    if (!has_state(variant, k)) continue;
    const Tensor& state = item.state[k];
    require_like(where, item, "state", state);
    require<DTypeError>(state.dtype() == parameter.dtype(), Subject{where, item},
                        ": expected state of dtype ", parameter.dtype(), ", got ", describe(state));
    device = common_device(where, {&parameter, &item.gradient, &state});
  }
  check_memory(where, item);
  return device;
}

}  // namespace

template <class Rule>
void optimizer_update(std::span<const UpdateItem> items, std::span<const UpdateGroup<Rule>> groups,
                      const Tensor& clip) {
  static constexpr Kernel<void(std::span<const UpdateItem>, std::span<const UpdateGroup<Rule>>,
                               const Tensor&)>
      kernel{Rule::name, &kernels::cpu::optimizer_update<Rule>,
             TESSERA_CUDA_KERNEL(kernels::cuda::optimizer_update<Rule>)};
  const char* where = kernel.name();
  require<DTypeError>(!clip.defined() || (clip.dtype() == f64 && clip.numel() == 1), where,
                      ": expected a clip coefficient of one f64, got ", describe(clip));
  const UpdateItem* first = nullptr;
  Device device = cpu();
  for (const UpdateItem& item : items) {
    if (!item.gradient.defined()) continue;
    require<IndexError>(item.group >= 0 && item.group < static_cast<int>(groups.size()), where, ": group ",
                        item.group, " of ", groups.size());
    const auto& [lr, rule] = groups[item.group];
    require<DTypeError>(lr.defined() && lr.dtype() == f64 && lr.numel() == 1, where,
                        ": expected a learning rate of one f64, got ", describe(lr));
    const Device item_device = check_item(where, item, &elementwise::has_state<Rule>, rule.variant());
    require<DeviceError>(!first || item_device == device, where,
                         ": expected all parameters on one device, got ", device, " and ", item_device);
    first = &item;
    device = item_device;
  }
  if (!first) return;
  kernel(device, items, groups, clip);
  for (const UpdateItem& item : items) {
    if (!item.gradient.defined()) continue;
    item.parameter.bump_version();
    if (item.rounded.defined()) item.rounded.bump_version();
    for (const Tensor& state : item.state)
      if (state.defined()) state.bump_version();
  }
}

#define TESSERA_INSTANTIATE(Rule)                             \
  template void optimizer_update(std::span<const UpdateItem>, \
                                 std::span<const UpdateGroup<elementwise::Rule>>, const Tensor&);
TESSERA_UPDATE_RULES(TESSERA_INSTANTIATE)
#undef TESSERA_INSTANTIATE

}  // namespace tessera::ops
