#include "autograd/graph/saved.h"

#include "autograd/grad_mode.h"
#include "autograd/graph/node.h"
#include "autograd/recompute/first_run.h"
#include "tensor/memory/storage_owner.h"

namespace tessera {
namespace {

/// The source of `value`, which `op` saves, by `policy`; null: the value is held.
std::shared_ptr<ValueSource> decide(const SavingPolicy& policy, const char* op, const Tensor& value) {
  const uint64_t version = value.version();
  const SavingPolicyScope held(nullptr);  // for what operations of the policy itself save
  std::shared_ptr<ValueSource> source = policy(op, value);
  require<AutogradError>(value.version() == version, "saving policy: it changed in place the ",
                         describe(value), " that '", op,
                         "' saves; the value has other readers: change a clone");
  return source;
}

/// Whether `x` has a recompute function for its values at `version`.
bool is_recomputable(const Variable& x, uint64_t version) {
  return x.defined() && x.impl()->recompute && x.impl()->recompute_version == version;
}

}  // namespace

SavedValue::SavedValue(const char* op, const SavedItem& item, std::span<const Tensor> outputs)
    : output_(item.output) {
  if (item.variable.defined() && item.variable.is_parameter()) {
    parameter_ = item.variable.impl();
    requires_grad_ = parameter_->requires_grad;
    version_ = parameter_->value.version();
    note_parameter_of_segments(parameter_->value);
    return;
  }
  if (item.variable.defined()) {
    tensor_ = item.variable.value();
    requires_grad_ = item.variable.requires_grad();
    history_ = gradient_edge(item.variable);
  } else {
    tensor_ = output_ >= 0 ? outputs[output_] : item.tensor;
  }
  if (!tensor_.defined()) {
    undefined_ = true;
    return;
  }
  version_ = tensor_.version();
  if (const SavingPolicy* const policy = current_saving_policy()) [[unlikely]]
    source_ = decide(*policy, op, tensor_);
  else if (is_recomputable(item.variable, version_))
    source_ = item.variable.impl()->recompute;
  if (source_) tensor_ = Tensor();
}

Tensor SavedValue::tensor(const char* op) const {
  if (undefined_) return {};
  require<AutogradError>(
      !released_, "backward of '", op,
      "': an earlier backward freed its saved values; to run a graph twice, pass {.retain_graph = true} "
      "to the first backward");
  if (source_) return source_->produce();
  const Tensor& value = parameter_ ? parameter_->value : tensor_;
  ensure_values(*value.storage());
  if (value.version() != version_) [[unlikely]]
    throw AutogradError(text(
        "backward of '", op, "': the ", describe(value),
        parameter_ && !parameter_->name.empty() ? " parameter '" + parameter_->name + "'" : "",
        output_ >= 0 ? " that it returned" : " that it saved", " was changed in place since (version ",
        value.version(), ", saved at ", version_, "); change a clone() of it, or change it after backward"));
  return value;
}

Variable SavedValue::variable(const char* op, const intrusive_ptr<Node>& owner) const {
  if (undefined_) return {};
  Tensor value = tensor(op);
  if (parameter_) return Variable(parameter_);
  Variable x(std::move(value));
  if (!grad_mode()) return x;
  const bool is_output = output_ >= 0;
  if (is_output || requires_grad_) {
    VariableImpl& impl = *x.impl();
    impl.requires_grad = true;
    impl.is_leaf = false;
    impl.history = is_output ? Edge(owner, output_) : history_;
  }
  return x;
}

void SavedValue::release() {
  if (source_) source_->release();
  tensor_ = Tensor();
  parameter_ = nullptr;
  source_ = nullptr;
  history_ = Edge();
  released_ = true;
}

Variable Saved::operator[](size_t i) const {
  return node_->saved[i].variable(node_->name(), intrusive_ptr<Node>(node_));
}
Tensor Saved::tensor(size_t i) const {
  return node_->saved[i].tensor(node_->name());
}
bool Saved::defined(size_t i) const {
  return tensor(i).defined();
}
Tensor Saved::take(size_t i) const {
  Tensor value = tensor(i);
  release(i);
  return value;
}
bool is_only_handle(const Tensor& x) {
  return x.storage()->use_count() == 1 && x.is_contiguous() && x.storage()->owns_bytes();
}
void Saved::release(size_t i) const {
  if (!retained_) node_->saved[i].release();
}

}  // namespace tessera
