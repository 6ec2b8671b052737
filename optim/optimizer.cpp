#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "optim/parameter_list_checks.h"
#include "tensor/ops/training/multi_tensor.h"
#include "tensor/profile/span.h"

namespace tessera::optim {
namespace {

/// State tensors start at multiples of this many elements of their arena, aligned as allocations are.
constexpr int64_t alignment = 16;

int64_t padded(int64_t numel) {
  return (numel + alignment - 1) / alignment * alignment;
}

void fill(const Tensor& tensor, double value) {
  const Tensor scalar =
      tensor.dtype() == f64 ? Tensor::scalar(value) : Tensor::scalar(static_cast<float>(value));
  if (!tensor.is_meta()) tensor.copy_from(scalar.expand(tensor.shape()));
}

void require_rate(const std::string& name, double lr) {
  require<ConfigError>(std::isfinite(lr) && lr >= 0.0, name, ": expected a learning rate of at least 0, got ",
                       lr);
}

}  // namespace

Optimizer::Optimizer(std::string name) : name_(std::move(name)) {}
Optimizer::Optimizer(const ParameterList& parameters, double lr) : Optimizer("Optimizer") {
  add_group(parameters, lr);
  require_parameters();
}
Optimizer::~Optimizer() = default;

std::vector<Optimizer::StateTensor> Optimizer::state_tensors(int) const {
  return {};
}

void Optimizer::update(std::span<const ops::UpdateItem>, const Tensor&) {
  throw ConfigError(text(name_,
                         ": it overrides step() alone, so it has no step with options, as a GradScaler and "
                         "{.clip = ...} need it; derive from optim::PlainOptimizer for such steps"));
}

std::vector<NamedOption> Optimizer::options(int) const {
  return {};
}

void Optimizer::load_options(int group, std::span<const NamedOption> saved, bool) {
  require<CheckpointError>(saved.empty(), name_, ": unknown option '", saved.empty() ? "" : saved[0].name,
                           "' of group ", group);
}

std::vector<NamedParameter> Optimizer::checked(const ParameterList& list) const {
  std::set<const void*> identities;
  std::set<std::string> names;
  for (const NamedParameter& parameter : parameters_) {
    identities.insert(parameter.variable.impl().get());
    names.insert(parameter.name);
  }
  std::vector<NamedParameter> added;
  for (NamedParameter parameter : list) {
    const Variable& variable = parameter.variable;
    if (parameter.name.empty()) parameter.name = text("parameter_", parameters_.size() + added.size());
    const std::string where = text(name_, ": parameter '", parameter.name, "' of group ", group_count());
    require<ValueError>(variable.defined(), where, " is undefined");
    require<AutogradError>(variable.is_leaf(), where,
                           " is not a leaf: an optimizer updates leaves, not results of operations");
    require<DTypeError>(parameter.values().dtype() == f32 || parameter.values().dtype() == f64, where,
                        ": expected f32 or f64 (f16 and bf16 need an f32 master: nn::use_mixed_precision), "
                        "got ",
                        variable.dtype());
    require<ValueError>(identities.insert(variable.impl().get()).second, where, " is listed twice");
    require<ValueError>(names.insert(parameter.name).second, where,
                        ": another parameter has the same name; for lists of several models use "
                        "ParameterList::prefixed");
    added.push_back(parameter);
  }
  return added;
}

Tensor Optimizer::add_group(const ParameterList& list, double lr) {
  require_rate(name_, lr);
  require_current(list, name_);
  for (const NamedParameter& parameter : checked(list)) {
    parameters_.push_back(parameter);
    items_.emplace_back().group = group_count();
  }
  if (list.reducer()) parameters_.set_reducer(list.reducer());
  rates_.push_back(Tensor::scalar(lr));
  base_rates_.push_back(lr);
  return rates_.back();
}

void Optimizer::require_parameters() const {
  if (parameters_.reducer()) return;  // other ranks have parameters: a stage of a pipeline may have none
  require<ValueError>(
      !parameters_.empty(), name_, ": expected at least one parameter, got an empty list",
      "; a module has the parameters that it makes by parameter(name, ...) and those of the layers "
      "that it makes by add(name, ...)");
}

const Tensor& Optimizer::lr(int group) const {
  require<IndexError>(group >= 0 && group < group_count(), name_, ": group ", group, " of ", group_count());
  return rates_[group];
}

double Optimizer::base_lr(int group) const {
  require<IndexError>(group >= 0 && group < group_count(), name_, ": group ", group, " of ", group_count());
  return base_rates_[group];
}

bool Optimizer::has_one_base_lr() const {
  return std::adjacent_find(base_rates_.begin(), base_rates_.end(), std::not_equal_to()) == base_rates_.end();
}

std::optional<double> Optimizer::option(int group, std::string_view name) const {
  lr(group);  // the check of the group
  for (const NamedOption& option : options(group))
    if (option.name == name) return option.value;
  return std::nullopt;
}

void Optimizer::set_option(int group, std::string_view name, double value) {
  lr(group);  // the check of the group
  const std::vector<NamedOption> before = options(group);
  std::vector<NamedOption> after = before;
  std::string names;
  NamedOption* changed = nullptr;
  for (NamedOption& option : after) {
    names += (names.empty() ? "" : ", ") + option.name;
    if (option.name == name) changed = &option;
  }
  require<ConfigError>(changed != nullptr, name_, ": no option '", name, "'; there are ", names);
  if (changed->value == value) return;
  changed->value = value;
  const std::vector<int> states = state_indices(group);
  load_options(group, after, true);
  if (state_indices(group) == states) return;
  load_options(group, before, true);
  throw ConfigError(text(name_, ": ", name, " = ", value, " changes which state group ", group,
                         " has; make the optimizer with it"));
}

std::vector<int> Optimizer::state_indices(int group) const {
  std::vector<int> indices;
  for (const StateTensor& state : state_tensors(group)) indices.push_back(state.index);
  return indices;
}

void Optimizer::set_lr(int group, double lr) {
  require_rate(name_, lr);
  *this->lr(group).data<double>() = lr;
}

void Optimizer::set_lr(double lr) {
  for (int group = 0; group < group_count(); ++group) set_lr(group, lr);
}

void Optimizer::zero_grad(bool set_to_none) const {
  parameters_.zero_grad(set_to_none);
}

void Optimizer::step(const StepOptions& options) {
  const SpanScope span(SpanKind::phase, "optimizer");
  require_current(parameters_, name_);
  make_state();
  // Gradients are held during the update only, so that freeing them afterwards frees their memory.
  struct Release {
    std::vector<ops::UpdateItem>& items;
    ~Release() {
      for (ops::UpdateItem& item : items) item.gradient = Tensor();
    }
  } release{items_};
  collect_gradients();
  update(items_, options.clip);
}

void Optimizer::collect_gradients() {
  for (size_t i = 0; i < items_.size(); ++i) {
    ops::UpdateItem& item = items_[i];
    const Variable& variable = parameters_[i].variable;
    const Variable gradient = variable.grad();
    if (!gradient.defined()) continue;
    item.name = parameters_[i].name;
    item.parameter = parameters_[i].values();
    if (parameters_[i].master.defined()) item.rounded = variable.value();
    item.gradient = gradient.value().contiguous();
  }
}

void Optimizer::make_state() {
  if (items_.empty()) return;
  const Device device = parameters_[0].variable.device();
  // State made while the parameters were on meta was a plan; now they have values.
  if (with_state_ > 0 && items_[0].step.is_meta() && !device.is_meta()) with_state_ = 0;
  if (with_state_ == items_.size()) return;
  CategoryScope category(MemoryCategory::optimizer_state);
  const size_t first = with_state_;
  const Tensor steps = Tensor::zeros({static_cast<int64_t>(items_.size() - first)}, i64,
                                     counts_on_host() && !device.is_meta() ? cpu() : device);
  for (size_t i = first; i < items_.size(); ++i)
    items_[i].step = steps.select(0, static_cast<int64_t>(i - first));
  NewStates states(elementwise::max_update_states);
  for (std::vector<Tensor>& of_kind : states) of_kind.resize(items_.size());
  for (int group = items_[first].group; group < group_count(); ++group)
    for (const DType dtype : {f32, f64}) make_arena(group, dtype, states);
  // One kind at a time over all items, so that a thread writes the pages of all states of the elements that
  // it will update.
  if (device.is_cpu())
    for (const std::vector<Tensor>& of_kind : states) ops::zero_in_place(of_kind);
  for (int group = items_[first].group; group < group_count(); ++group)
    for (const StateTensor& kind : state_tensors(group))
      for (size_t i = 0; i < items_.size(); ++i)
        if (kind.initial != 0.0 && items_[i].group == group &&
            states[static_cast<size_t>(kind.index)][i].defined())
          fill(items_[i].state[kind.index], kind.initial);
  with_state_ = items_.size();
}

void Optimizer::make_arena(int group, DType dtype, NewStates& states) {
  struct Place {
    StateTensor kind;
    size_t item;
    Shape shape;
    int64_t offset;
  };
  std::vector<Place> places;
  int64_t numel = 0;
  for (const StateTensor& kind : state_tensors(group)) {
    require<IndexError>(kind.index >= 0 && kind.index < elementwise::max_update_states, name_, ": state '",
                        kind.name, "' has index ", kind.index, " of ", elementwise::max_update_states);
    for (size_t i = 0; i < items_.size(); ++i) {
      if (items_[i].group != group || parameters_[i].values().dtype() != dtype) continue;
      const Shape& parameter = parameters_[i].variable.shape();
      const std::optional<Shape> shape = kind.shape ? kind.shape(parameter) : parameter;
      if (!shape) continue;
      places.push_back({kind, i, *shape, numel});
      numel += padded(shape->numel());
    }
  }
  if (places.empty()) return;
  const Device device = parameters_[places.front().item].variable.device();
  const Tensor arena =
      device.is_cpu() ? Tensor::empty({numel}, dtype) : Tensor::zeros({numel}, dtype, device);
  for (const auto& [kind, item, shape, offset] : places) {
    const auto at = [&](const Shape& of) {
      return Tensor::over(arena.storage(), dtype, of, contiguous_strides(of), offset);
    };
    items_[item].state[kind.index] = at(shape);
    states[static_cast<size_t>(kind.index)][item] = at({padded(shape.numel())});
  }
}

OptimizerState Optimizer::state() {
  make_state();
  OptimizerState state;
  state.optimizer = name_;
  for (size_t i = 0; i < items_.size(); ++i) {
    const std::string& name = parameters_[i].name;
    for (const StateTensor& kind : state_tensors(items_[i].group))
      if (const Tensor& tensor = items_[i].state[kind.index]; tensor.defined())
        state.tensors.push_back({text(kind.name, "/", name), tensor});
    state.tensors.push_back({text("step/", name), items_[i].step});
  }
  for (NamedTensor& entry : common_state()) state.tensors.push_back(std::move(entry));
  for (int group = 0; group < group_count(); ++group) {
    state.groups.push_back({{"lr", lr(group).item()}});
    for (NamedOption& option : options(group)) state.groups.back().push_back(std::move(option));
  }
  return state;
}

void Optimizer::load_state(const OptimizerState& saved) {
  const OptimizerState current = state();
  require_fits(saved, current);
  for (const bool apply : {false, true})  // everything is checked before the first is applied
    for (int group = 0; group < std::ssize(saved.groups); ++group)
      load_group(group, saved.groups[group], apply);
  std::map<std::string_view, const Tensor*> given;
  for (const NamedTensor& entry : saved.tensors) given[entry.name] = &entry.tensor;
  for (const NamedTensor& entry : current.tensors) entry.tensor.copy_from(*given.at(entry.name));
}

void Optimizer::load_group(int group, std::span<const NamedOption> saved, bool apply) {
  require<CheckpointError>(!saved.empty() && saved.front().name == "lr", name_,
                           ": the saved options of group ", group, " do not begin with 'lr'");
  require_rate(name_, saved.front().value);
  load_options(group, saved.subspan(1), apply);
  if (apply) set_lr(group, saved.front().value);
}

}  // namespace tessera::optim
