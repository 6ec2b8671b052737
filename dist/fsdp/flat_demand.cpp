// A flat parameter outside of a step's usual order: memory that a backward demands, errors for memory that is
// released, and parameters that are frozen or unfrozen.

#include <algorithm>

#include "dist/fsdp/flat_parameter.h"
#include "tensor/error.h"

namespace tessera::dist {

void FlatParameter::bring_back(Storage& storage) {
  if (!demand_handler_) return;
  demand_handler_(full_.defined() && &storage == full_.storage().get() ? Demand::parameters
                                                                       : Demand::gradient);
}

std::string FlatParameter::describe_released(const Storage& storage) const {
  std::string names;
  for (const UnitParameter& parameter : parameters_)
    names += (names.empty() ? "'" : ", '") + parameter.key_name + "'";
  if (!full_.defined() || &storage != full_.storage().get())
    return text(
        "a gradient of unit '", unit_, "' (", names,
        ") was read outside of backward: read the gradients of module.parameters(), this rank's shards");
  return text("a parameter of unit '", unit_, "' (", names,
              ") was read outside of the unit's calls: it is gathered while a call of the unit's module, or "
              "the backward of one, runs. Call that module, not its `forward` or a child of it, and read the "
              "parameter inside its forward; or keep it gathered by dist::Unsharded, read it in a "
              "dist::SummonFullParams, or choose units such that the module that reads it holds it");
}

bool FlatParameter::sync_requires_grad() {
  bool changed = false;
  for (size_t i = 0; i < locals_.size(); ++i) {
    const Variable &full = parameters_[i].variable, &local = locals_[i].variable;
    if (full.requires_grad() == trained_[i] && local.requires_grad() == trained_[i]) continue;
    trained_[i] = !trained_[i];
    full.set_requires_grad(trained_[i]);
    local.set_requires_grad(trained_[i]);
    changed = true;
  }
  return changed;
}

bool FlatParameter::is_unfrozen() const {
  return !trainable_ && std::find(trained_.begin(), trained_.end(), true) != trained_.end();
}

void FlatParameter::make_trainable() {
  trainable_ = true;
  make_gradient_views();
}

void FlatParameter::make_gradient_views() {
  if (!gradient_.defined()) {
    const CategoryScope category(MemoryCategory::gradient);
    gradient_ = options_.shard_group->empty({layout_.numel()}, gradient_dtype_, Storage::Born::released);
    gradient_.storage()->set_label(text("the gradients of unit '", unit_, "'"));
    set_owner(*gradient_.storage(), this);
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].variable.set_grad_dtype(gradient_dtype_);
    parameters_[i].variable.set_gradient_buffer(gradient_buffer(i));
  }
}

void FlatParameter::set_gradient_memory(const Tensor& memory) {
  gradient_ = memory;
  if (locals_.empty()) return;
  make_gradient_views();
  if (!prepared_) return;
  gradient_.storage()->refill();
  for (const FlatLayout::Range& gap : layout_.padding()) gradient_.narrow(0, gap.begin, gap.numel()).zero();
}

}  // namespace tessera::dist
