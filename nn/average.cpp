#include "nn/average.h"

#include <algorithm>
#include <unordered_map>

#include "nn/mixed_precision.h"
#include "tensor/elementwise/update_rules.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/training/optimizer_update.h"

namespace tessera::nn {

namespace {

/// The name of each parameter of the list, relative to `module`.
std::vector<std::string> relative_names(const Module& module, const ParameterList& parameters) {
  std::vector<std::string> names;
  const std::string prefix = module.full_name().empty() ? "" : module.full_name() + ".";
  for (const NamedParameter& parameter : parameters)
    names.push_back(parameter.name.starts_with(prefix) ? parameter.name.substr(prefix.size())
                                                       : parameter.name);
  if (module.store()) return names;
  // Another module may own a shared parameter, whose full name is there.
  std::unordered_map<const VariableImpl*, std::string> own;
  for (const auto& [name, variable] : module.named_parameters()) own[variable.impl().get()] = name;
  for (size_t i = 0; i < names.size(); ++i) names[i] = own.at(parameters[i].variable.impl().get());
  return names;
}

}  // namespace

ExponentialMovingAverage::ExponentialMovingAverage(Module& module, Options options)
    : module_(module), options_(options) {
  require<ConfigError>(options.decay >= 0 && options.decay <= 1,
                       "ExponentialMovingAverage: expected a decay in [0, 1], got ", options.decay);
  const CategoryScope category(MemoryCategory::optimizer_state);
  const ParameterList parameters = module.parameters();
  const std::vector<std::string> names = relative_names(module, parameters);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& values = parameters[i].values();
    require<ConfigError>(!values.is_meta(), "ExponentialMovingAverage: '", parameters[i].name,
                         "' is on meta; call nn::materialize first");
    if (!is_floating(values.dtype())) continue;
    const Tensor average = Tensor::empty(values.shape(), values.dtype() == f64 ? f64 : f32, values.device());
    average.copy_from(ops::cast(values, average.dtype()));
    entries_.push_back({.name = names[i],
                        .index = i,
                        .average = average,
                        .step = Tensor::zeros({}, i64, values.device()),
                        .shard = parameters[i].shard});
  }
}

ParameterList ExponentialMovingAverage::current_parameters(const char* where) const {
  const ParameterList parameters = module_.parameters();
  for (const Entry& entry : entries_)
    require<ConfigError>(entry.index < parameters.size() &&
                             parameters[entry.index].values().shape() == entry.average.shape() &&
                             parameters[entry.index].shard.has_value() == entry.shard.has_value(),
                         "ExponentialMovingAverage: ", where, ": '", entry.name,
                         "' was sharded after this average was made: make it after dist::shard");
  return parameters;
}

void ExponentialMovingAverage::require_full(const char* where) const {
  require<ConfigError>(!module_.store(), "ExponentialMovingAverage: ", where, ": the averages of ",
                       module_.kind(), " '", module_.full_name(),
                       "' are this rank's shards; save and load them as the group dist::average_shards");
}

ParameterList ExponentialMovingAverage::averages() const {
  ParameterList list;
  for (const Entry& entry : entries_)
    list.push_back({.name = entry.name, .variable = Variable(entry.average), .shard = entry.shard});
  return list;
}

void ExponentialMovingAverage::update() {
  require<ConfigError>(!swapped_, "ExponentialMovingAverage: update while the module has the averages");
  const ParameterList parameters = current_parameters("update");
  if ((*n_averaged_.data<int64_t>())++ == 0) {
    for (const Entry& entry : entries_)
      entry.average.copy_from(ops::cast(parameters[entry.index].values(), entry.average.dtype()));
    return;
  }
  // average -= (1 - decay) (average - value): a step of gradient descent with weight decay 1 that maximizes
  // along the value.
  std::vector<ops::UpdateItem> items;
  for (const Entry& entry : entries_) {
    if (entry.average.numel() == 0) continue;  // of a shard without elements
    items.push_back({.parameter = entry.average,
                     .gradient = parameters[entry.index].values().contiguous(),
                     .step = entry.step,
                     .name = entry.name});
  }
  const elementwise::SgdRule rule{
      .momentum = 0, .dampening = 0, .weight_decay = 1, .nesterov = false, .maximize = true};
  const ops::UpdateGroup<elementwise::SgdRule> group{Tensor::scalar(1 - options_.decay), rule};
  ops::optimizer_update<elementwise::SgdRule>(items, {&group, 1}, {});
}

void ExponentialMovingAverage::copy_to_module() {
  require<ConfigError>(!swapped_, "ExponentialMovingAverage: the module has the averages already");
  const ParameterList parameters = current_parameters("copy_to_module");
  for (const Entry& entry : entries_) {
    const Tensor& values = parameters[entry.index].values();
    values.copy_from(ops::cast(entry.average, values.dtype()));
  }
  round_masters(module_);
}

void ExponentialMovingAverage::begin_swap() {
  require<ConfigError>(!swapped_, "ExponentialMovingAverage: the module has the averages already");
  const ParameterList parameters = current_parameters("swap_in");
  std::vector<Tensor> kept;
  for (const Entry& entry : entries_) kept.push_back(parameters[entry.index].values().clone());
  copy_to_module();
  kept_ = std::move(kept);
  swapped_ = true;
}

void ExponentialMovingAverage::end_swap() {
  const ParameterList parameters = module_.parameters();
  for (size_t i = 0; i < entries_.size(); ++i) parameters[entries_[i].index].values().copy_from(kept_[i]);
  round_masters(module_);
  kept_.clear();
  swapped_ = false;
}

StateDict ExponentialMovingAverage::state_dict() const {
  require_full("state_dict");
  StateDict state{{"n_averaged", n_averaged_.clone()}};
  for (NamedTensor& own : module_.state_dict()) {
    const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const Entry& candidate) { return candidate.name == own.name; });
    state.push_back({"module." + own.name, entry == entries_.end() ? own.tensor : entry->average});
  }
  return state;
}

void ExponentialMovingAverage::load_state_dict(const StateDict& state) {
  require_full("load_state_dict");
  StateDict own{{"n_averaged", n_averaged_}};
  for (const Entry& entry : entries_) own.push_back({"module." + entry.name, entry.average});
  StateDict averages;
  const StateDict all = state_dict();
  const auto has = [](const StateDict& list, const std::string& name) {
    return std::any_of(list.begin(), list.end(),
                       [&](const NamedTensor& entry) { return entry.name == name; });
  };
  for (const NamedTensor& entry : state)
    if (has(own, entry.name) || !has(all, entry.name)) averages.push_back(entry);
  load_into(own, averages, /*strict=*/true, "load_state_dict of ExponentialMovingAverage");
}

}  // namespace tessera::nn
