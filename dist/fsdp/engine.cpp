// When the operations of a unit are called. Forward: gather, compute, free. Backward: gather, compute, free,
// reduce, while the next unit is gathered ahead and the last unit's gradients are reduced.

#include "dist/fsdp/engine.h"

#include <algorithm>

#include "autograd/autocast/autocast.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/grad_mode.h"
#include "nn/quantize_weights.h"
#include "tensor/ops/elementwise/cast.h"

namespace tessera::dist {
namespace {

void cast_floating(std::span<Variable* const> variables, DType dtype) {
  for (Variable* variable : variables)
    if (variable->defined() && is_floating(variable->dtype()) && variable->dtype() != dtype)
      *variable = cast(*variable, dtype);
}

/// Throws ConfigError for a layer, from `module` down to the ignored ones, with integers for its weight.
void require_no_quantized_weights(const nn::Module& module, const std::vector<nn::Module*>& ignored) {
  if (std::find(ignored.begin(), ignored.end(), &module) != ignored.end()) return;
  require<ConfigError>(
      !nn::has_quantized_weight(module), "shard: nn::", module.kind(), " '", module.full_name(),
      "': it multiplies by 8-bit integers, for inference, which are not sharded; shard a model "
      "with weights of its own");
  for (const nn::Module::Child& child : module.child_entries())
    require_no_quantized_weights(*child.module, ignored);
}

}  // namespace

Sharding::Engine::Engine(nn::Module& root, ShardOptions options) : root_(root), options_(std::move(options)) {
  check(options_);
  const Mesh& mesh = options_.mesh;
  const bool replicated = mesh.has("replica") && mesh.size("replica") > 1;
  flat_.traits = traits_of(options_.strategy);
  flat_.shard_group = mesh.group("shard");
  if (replicated) flat_.replica_group = mesh.group("replica");
  all_ranks_ = replicated ? mesh.group(std::vector<std::string>{"replica", "shard"}) : flat_.shard_group;
  flat_.alignment = options_.alignment;
  flat_.messages = options_.messages;
  flat_.compute = options_.precision.compute;
  flat_.reduce = options_.precision.reduce;
  flat_.keep_reduced_dtype = options_.precision.keep_low_precision_grads;
  std::vector<UnitPlan> plans = assign_parameters(root, options_.units, options_.ignored);
  for (UnitPlan& plan : plans) units_.push_back(std::make_unique<Unit>(std::move(plan), flat_));
  for (size_t i = 0; i < units_.size(); ++i)
    for (const auto& flat : units_[i]->flats())
      for (size_t k = 0; k < flat->parameters().size(); ++k) {
        const VariableImpl* variable = flat->parameters()[k].variable.impl().get();
        places_[variable] = {flat.get(), k};
      }
  make_buckets();
  require_called_units();
  reached_leaves_.resize(units_.size());
  pending_leaves_.resize(units_.size());
  reduced_.resize(units_.size());
  take_initial_values();
  register_hooks();
}

Sharding::Engine::~Engine() {
  for (HookHandle& hook : hooks_) hook.remove();
}

void Sharding::Engine::check(const ShardOptions& options) {
  const Mesh& mesh = options.mesh;
  const StrategyTraits traits = traits_of(options.strategy);
  const std::string strategy = name_of(options.strategy);
  require<ConfigError>(mesh.has("shard"), "shard: ", strategy, " needs a mesh with a dimension 'shard'");
  require<ConfigError>(traits.replicates || mesh.size("replica") == 1 || !traits.shards_optimizer,
                       "shard: ", strategy, " shards over all ranks, but the mesh has ", mesh.size("replica"),
                       " replicas: use ", names_of_strategies(true),
                       ", or a mesh with 'shard' as its only dimension");
  require<ConfigError>(options.alignment > 0, "shard: expected a positive alignment, got ",
                       options.alignment);
  require<ConfigError>(options.gathers_in_flight > 0, "shard: expected at least 1 gather in flight, got ",
                       options.gathers_in_flight);
  require<ConfigError>(options.bucket_bytes > 0, "shard: expected positive bucket_bytes, got ",
                       options.bucket_bytes);
  require<ConfigError>(options.messages.gather_elements > 0 && options.messages.reduce_elements > 0,
                       "shard: expected messages of at least 1 element, got limits of ",
                       options.messages.gather_elements, " and ", options.messages.reduce_elements);
  require<ConfigError>(options.messages.prefetch_elements >= 0,
                       "shard: expected at least 0 elements gathered ahead, got ",
                       options.messages.prefetch_elements);
  require<ConfigError>(
      !root_.parent(), "shard: '", root_.full_name(),
      "' is a submodule: shard the root of the model, with the modules that stay unsharded as `ignored`");
  root_.for_each([](nn::Module& module) {
    require<ConfigError>(!module.store(), "shard: ", module.kind(), " '", module.full_name(),
                         "' is sharded already");
    for (const nn::Module::Entry& entry : module.entries())
      require<ConfigError>(!entry.master.defined(), "shard: '", entry.name, "' of '", module.full_name(),
                           "' is in mixed precision already: set ShardOptions::precision instead");
  });
  require_no_quantized_weights(root_, options.ignored);
  for (const std::optional<DType>& dtype : {options.precision.compute, options.precision.reduce,
                                            options.precision.buffer, options.precision.output})
    require<ConfigError>(!dtype || is_floating(*dtype),
                         "shard: expected a floating dtype in the precision, got ", dtype.value_or(f32));
}

/// Shards the model at once if every parameter to be sharded has values already. If only some have, they keep
/// them when `materialize` fills the others.
void Sharding::Engine::take_initial_values() {
  static const std::vector<nn::Module*> none;
  initial_.emplace(root_, options_.ignored_differ ? options_.ignored : none, *all_ranks_,
                   options_.sync_module_states);
  nn::ParameterSet sharded;
  bool all = true;
  for (const auto& [variable, place] : places_) {
    const Variable& parameter = place.flat->parameters()[place.index].variable;
    sharded.insert(variable);
    all = all && (initial_->comes_from_rank_0(parameter) || !parameter.value().is_meta());
  }
  initial_->broadcast_except(sharded);
  if (all) fill_units(cpu(), 0);
}

void Sharding::Engine::materialize(Device device, uint64_t seed) {
  if (materialized_) return;
  require_same_seed(*all_ranks_, seed);
  fill_units(device, seed);
}

void Sharding::Engine::fill_units(Device device, uint64_t seed) {
  if (buckets_) buckets_->allocate();
  for (const auto& unit : units_) {
    for (const auto& flat : unit->flats())
      for (const UnitParameter& parameter : flat->parameters()) initial_->broadcast(parameter.variable);
    unit->materialize(device, seed);
  }
  initial_.reset();
  for (const auto& unit : units_)
    for (const auto& flat : unit->flats())
      for (size_t i = 0; i < flat->parameters().size(); ++i)
        places_[flat->local(i).variable.impl().get()] = {flat.get(), i};
  materialized_ = true;
}

/// There are buckets where full gradients are averaged in their own dtype and over one group.
void Sharding::Engine::make_buckets() {
  buckets_.reset();
  if (traits().shards_optimizer || flat_.replica_group) return;
  std::vector<FlatParameter*> flats;
  for (const auto& unit : units_)
    for (const auto& flat : unit->flats())
      if (flat->is_trainable()) flats.push_back(flat.get());
  const auto other = [&](const FlatParameter* flat) {
    return flat->gradient().dtype() != flats.front()->gradient().dtype() ||
           flat->gradient().reduce_dtype() != flat->gradient().dtype();
  };
  if (!std::any_of(flats.begin(), flats.end(), other))
    buckets_.emplace(std::move(flats), flat_.shard_group, options_.bucket_bytes, options_.messages);
}

std::vector<Unit*> Sharding::Engine::units_of(const nn::Module* module, const char* what) const {
  require<ConfigError>(materialized_, what,
                       ": the parameters have no values yet; call nn::materialize first");
  std::vector<Unit*> chosen;
  for (const auto& unit : units_)
    if (!module || &unit->module() == module) chosen.push_back(unit.get());
  require<ConfigError>(!chosen.empty(), what, ": '", module ? module->full_name() : "",
                       "' is no unit of this model");
  return chosen;
}

const Sharding::Engine::Place* Sharding::Engine::find(const VariableImpl* variable) const {
  const auto found = places_.find(variable);
  return found == places_.end() ? nullptr : &found->second;
}

void Sharding::Engine::set_full_value(const VariableImpl* variable, Tensor values) {
  if (values.defined())
    full_values_[variable] = std::move(values);
  else
    full_values_.erase(variable);
}

const Tensor* Sharding::Engine::full_value(const VariableImpl* variable) const {
  const auto found = full_values_.find(variable);
  return found == full_values_.end() ? nullptr : &found->second;
}

/// Parameters are gathered for calls of a unit's module, so that module must be called.
void Sharding::Engine::require_called_units() const {
  if (!traits().shards_parameters) return;
  for (const auto& unit : units_) {
    if (unit->flats().empty()) continue;
    const nn::Module& module = unit->module();
    const std::string what = text("shard: unit '", unit->name(), "', a ", module.kind(), " that holds '",
                                  unit->flats().front()->parameters().front().key_name, "', ");
    require<ConfigError>(
        module.has_forward(), what,
        "has no forward, so that no call gathers it. Choose as units modules that are called, "
        "or move its parameters to one");
    require<ConfigError>(!module.is_container() || !module.parent(), what,
                         "is a list whose modules may be called one by one, which does not gather it. Choose "
                         "these modules instead (every_block(), every<M>()), or the parent of the list");
  }
}

void Sharding::Engine::register_hooks() {
  for (size_t i = 0; i < units_.size(); ++i) {
    Unit& unit = *units_[i];
    nn::Module& module = unit.module();
    hooks_.push_back(module.register_forward_pre_hook(
        [this, i](nn::Module&, const nn::CallVariables& inputs) { before_forward(i, inputs); }));
    hooks_.push_back(module.register_forward_hook(
        [this, &unit](nn::Module&, const nn::CallVariables&, const nn::CallVariables& outputs) {
          after_forward(unit, outputs);
        }));
    hooks_.push_back(
        module.register_forward_failure_hook([this, &unit](nn::Module&) { end_failed_forward(unit); }));
    hooks_.push_back(module.register_full_backward_pre_hook(
        [this, i](nn::Module&, std::vector<Variable>&) { before_backward(i); }));
    hooks_.push_back(module.register_input_gradient_hook(
        [this, i](nn::Module&, std::vector<Variable>&) { after_backward(i); }));
    register_leaf_hooks(i);
    for (const auto& flat : unit.flats())
      flat->set_demand_handler([this, i](FlatParameter::Demand demand) { provide(i, demand); });
  }
  observer_.emplace([this](std::span<const Variable> leaves) { begin_backward(leaves); });
}

/// Hooks every trained parameter of a unit once.
void Sharding::Engine::register_leaf_hooks(size_t index) {
  for (const auto& flat : units_[index]->flats())
    for (const UnitParameter& parameter : flat->parameters()) {
      const VariableImpl* variable = parameter.variable.impl().get();
      if (!parameter.variable.requires_grad() || unit_of_.contains(variable)) continue;
      unit_of_[variable] = index;
      hooks_.push_back(parameter.variable.register_post_accumulate_grad_hook(
          [this](const Variable& leaf) { finish_leaf(leaf.impl().get()); }));
    }
}

void Sharding::Engine::sync_requires_grad() {
  for (size_t i = 0; i < units_.size(); ++i) sync_requires_grad(i);
}

void Sharding::Engine::sync_requires_grad(size_t index) {
  bool changed = false, unfrozen = false;
  for (const auto& flat : units_[index]->flats()) {
    changed |= flat->sync_requires_grad();
    if (!flat->is_unfrozen()) continue;
    flat->make_trainable();
    unfrozen = true;
  }
  if (changed) register_leaf_hooks(index);
  if (!unfrozen || !buckets_) return;
  make_buckets();
  if (buckets_) buckets_->allocate();
}

// Forward.

void Sharding::Engine::require_values(const Unit& unit) const {
  require<ConfigError>(materialized_, "unit '", unit.name(),
                       "' has no values yet: call nn::materialize after sharding");
}

void Sharding::Engine::before_forward(size_t index, std::span<Variable* const> inputs) {
  if (all_summoned_) return;
  Unit& unit = *units_[index];
  require_values(unit);
  if (!backward_is_running()) sync_requires_grad(index);
  running_.push_back(&unit);
  unit.unshard();
  unit.reshard(Unit::Hold::prefetch);
  all_ranks_->poll();
  const bool is_root = index == 0;
  // Under autocast each operation casts its operands, so that a sharded model computes as one that is not.
  if (is_root && options_.precision.compute && !is_autocast_enabled())
    cast_floating(inputs, *options_.precision.compute);
  if (backward_is_running()) {
    unit.wait();
    return;
  }
  if (std::exchange(order_is_complete_, false) || is_root) {
    std::vector<Unit*> last = std::exchange(order_->entries, {});
    position_ = 0;
    if (options_.forward_prefetch) order_->entries = std::move(last);
    order_->exits.clear();
    root_is_running_ = is_root;
  }
  unit.wait();
  std::vector<Unit*>& entries = order_->entries;
  if (!options_.forward_prefetch || position_ >= entries.size() || entries[position_] != &unit) {
    entries.resize(std::min(position_, entries.size()));
    entries.push_back(&unit);
  }
  ++position_;
  if (!options_.forward_prefetch) return;
  for (size_t i = position_; i < std::min(position_ + units_ahead(), entries.size()); ++i)
    prefetch(*entries[i]);
}

void Sharding::Engine::begin_stage(int stage) {
  order_ = &orders_[stage];
  position_ = 0;
  order_is_complete_ = true;
}

/// Gathers a unit ahead of its use, within the limit of elements.
void Sharding::Engine::prefetch(Unit& unit) {
  int64_t room = options_.messages.prefetch_elements;
  for (const auto& other : units_) room -= other->elements_ahead();
  unit.prefetch(room);
}

/// Ends the hold of a unit's call. The backward that follows a recomputation keeps its own.
void Sharding::Engine::end_forward(Unit& unit) {
  running_.pop_back();
  if (backward_is_running()) {
    unit.unshard(Unit::Hold::backward);
    queue_end();
  }
  unit.reshard();
}

void Sharding::Engine::end_failed_forward(Unit& unit) {
  if (running_.empty() || running_.back() != &unit) return;
  if (&unit == units_.front().get()) root_is_running_ = false;
  end_forward(unit);
}

void Sharding::Engine::after_forward(Unit& unit, std::span<Variable* const> outputs) {
  if (all_summoned_) return refuse_backward_after_summon(unit, outputs);
  const bool is_root = &unit == units_.front().get();
  if (is_root && options_.precision.output) cast_floating(outputs, *options_.precision.output);
  if (backward_is_running()) return end_forward(unit);
  order_->exits.push_back(&unit);
  if (is_root || (!traits().frees_after_forward && grad_mode())) unit.unshard(Unit::Hold::kept);
  end_forward(unit);
  // An optimizer or a loader may write the values next, without a backward.
  if (is_root)
    wait_for_readers();
  else if (!root_is_running_)
    unit.wait_for_readers();
  if (is_root) root_is_running_ = false;
}

}  // namespace tessera::dist
