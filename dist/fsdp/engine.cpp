// When each verb of a unit is called. Forward: gather, compute, free. Backward: gather, compute, free,
// reduce, while the next unit is gathered ahead and the last one's gradients travel.

#include "dist/fsdp/engine.h"

#include <algorithm>

#include "autograd/functions/cast.h"
#include "autograd/grad_mode.h"
#include "tensor/ops/cast.h"

namespace tessera::dist {
namespace {

void cast_floating(std::span<Variable* const> variables, DType dtype) {
  for (Variable* variable : variables)
    if (variable->defined() && is_floating(variable->dtype()) && variable->dtype() != dtype)
      *variable = cast(*variable, dtype);
}

}  // namespace

Sharding::Engine::Engine(nn::Module& root, ShardOptions options) : root_(root), options_(std::move(options)) {
  check(options_);
  const Mesh& mesh = options_.mesh;
  const bool replicated = mesh.has("replica") && mesh.size("replica") > 1;
  flat_.traits = traits_of(options_.strategy);
  flat_.shard_group = mesh.group("shard");
  if (replicated) flat_.replica_group = mesh.group("replica");
  everyone_ = replicated ? mesh.group(std::vector<std::string>{"replica", "shard"}) : flat_.shard_group;
  flat_.alignment = options_.alignment;
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
        if (flat->is_trainable()) unit_of_[variable] = i;
      }
  make_buckets();
  leaves_.resize(units_.size());
  pending_.resize(units_.size());
  finished_.resize(units_.size());
  if (have_numbers()) materialize(cpu(), 0);
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
  require<ConfigError>(
      traits.replicates || mesh.size("replica") == 1 || options.strategy == Strategy::no_shard,
      "shard: ", strategy, " cuts over all ranks, but the mesh has ", mesh.size("replica"),
      " replicas: take hybrid_shard or hybrid_shard_zero2, or a mesh of 'shard' alone");
  require<ConfigError>(options.alignment > 0, "shard: expected a positive alignment, got ",
                       options.alignment);
  require<ConfigError>(options.gathers_in_flight > 0, "shard: expected at least 1 gather in flight, got ",
                       options.gathers_in_flight);
  require<ConfigError>(options.bucket_bytes > 0, "shard: expected positive bucket_bytes, got ",
                       options.bucket_bytes);
  require<ConfigError>(
      !root_.parent(), "shard: '", root_.full_name(),
      "' is a part of a model; shard the whole, and name as ignored what is to stay as it is");
  root_.for_each([](nn::Module& module) {
    require<ConfigError>(!module.store(), "shard: ", module.kind(), " '", module.full_name(),
                         "' is sharded already");
    for (const nn::Module::Slot& slot : module.slots())
      require<ConfigError>(!slot.master.defined(), "shard: '", slot.name, "' of '", module.full_name(),
                           "' is in mixed precision already; say it in the sharding's options instead");
  });
  for (const std::optional<DType>& dtype : {options.precision.compute, options.precision.reduce,
                                            options.precision.buffer, options.precision.output})
    require<ConfigError>(!dtype || is_floating(*dtype),
                         "shard: expected a floating dtype in the precision, got ", dtype.value_or(f32));
}

/// Whether every parameter to be cut has numbers already. Where only some have, those are kept when the
/// others get theirs.
bool Sharding::Engine::have_numbers() const {
  for (const auto& unit : units_)
    for (const auto& flat : unit->flats())
      for (const UnitParameter& parameter : flat->parameters())
        if (parameter.variable.value().is_meta()) return false;
  return true;
}

void Sharding::Engine::materialize(Device device, uint64_t seed) {
  if (materialized_) return;
  if (buckets_) buckets_->allocate();
  for (const auto& unit : units_) unit->materialize(device, seed);
  for (const auto& unit : units_)
    for (const auto& flat : unit->flats())
      for (size_t i = 0; i < flat->parameters().size(); ++i)
        places_[flat->local(i).variable.impl().get()] = {flat.get(), i};
  materialized_ = true;
}

/// Gradients that are averaged whole, in their own dtype and over one group, go by buckets.
void Sharding::Engine::make_buckets() {
  if (options_.strategy != Strategy::no_shard || flat_.replica_group) return;
  std::vector<FlatParameter*> flats;
  for (const auto& unit : units_)
    for (const auto& flat : unit->flats())
      if (flat->is_trainable()) flats.push_back(flat.get());
  const auto other = [&](const FlatParameter* flat) {
    return flat->gradient_dtype() != flats.front()->gradient_dtype() ||
           flat->reduce_dtype() != flat->gradient_dtype();
  };
  if (!std::any_of(flats.begin(), flats.end(), other))
    buckets_.emplace(std::move(flats), flat_.shard_group, options_.bucket_bytes);
}

const Sharding::Engine::Place* Sharding::Engine::find(const VariableImpl* variable) const {
  const auto found = places_.find(variable);
  return found == places_.end() ? nullptr : &found->second;
}

void Sharding::Engine::set_whole_numbers(const VariableImpl* variable, Tensor numbers) {
  if (numbers.defined())
    whole_numbers_[variable] = std::move(numbers);
  else
    whole_numbers_.erase(variable);
}

const Tensor* Sharding::Engine::whole_numbers(const VariableImpl* variable) const {
  const auto found = whole_numbers_.find(variable);
  return found == whole_numbers_.end() ? nullptr : &found->second;
}

void Sharding::Engine::register_hooks() {
  for (size_t i = 0; i < units_.size(); ++i) {
    Unit& unit = *units_[i];
    nn::Module& module = unit.module();
    hooks_.push_back(module.register_forward_pre_hook(
        [this, &unit](nn::Module&, std::span<Variable* const> inputs) { before_forward(unit, inputs); }));
    hooks_.push_back(module.register_forward_hook(
        [this, &unit](nn::Module&, std::span<Variable* const> outputs) { after_forward(unit, outputs); }));
    hooks_.push_back(module.register_backward_pre_hook(
        [this, i](nn::Module&, std::vector<Variable>&) { before_backward(i); }));
    hooks_.push_back(module.register_backward_hook(
        [this, i](nn::Module&, std::vector<Variable>&) { inputs_have_gradients(i); }));
    for (const auto& flat : unit.flats())
      for (const UnitParameter& parameter : flat->parameters())
        if (flat->is_trainable())
          hooks_.push_back(parameter.variable.register_accumulated_hook(
              [this](const Variable& leaf) { leaf_finished(leaf.impl().get()); }));
  }
  observer_.emplace([this](std::span<const Variable> leaves) { backward_started(leaves); });
}

// Forward.

void Sharding::Engine::gather(Unit& unit) {
  require<ConfigError>(materialized_, "unit '", unit.name(),
                       "' has no numbers yet: call nn::materialize after sharding");
  unit.unshard();
  unit.wait();
}

void Sharding::Engine::before_forward(Unit& unit, std::span<Variable* const> inputs) {
  if (summoned_) return;
  everyone_->poll();
  const bool is_root = &unit == units_.front().get();
  if (is_root && options_.precision.compute) cast_floating(inputs, *options_.precision.compute);
  if (backward_is_running()) {  // a recomputation: it ends before this unit's own backward does
    gather(unit);
    return;
  }
  if (std::exchange(order_is_complete_, false) || is_root) {
    std::vector<Unit*> last = std::exchange(order_, {});
    position_ = 0;
    if (options_.forward_prefetch) order_ = std::move(last);
    left_.clear();
    root_is_running_ = is_root;
  }
  gather(unit);
  if (!options_.forward_prefetch || position_ >= order_.size() || order_[position_] != &unit) {
    order_.resize(std::min(position_, order_.size()));
    order_.push_back(&unit);
  }
  ++position_;
  if (!options_.forward_prefetch) return;
  for (size_t i = position_; i < std::min(position_ + units_ahead(), order_.size()); ++i)
    order_[i]->unshard();
}

void Sharding::Engine::after_forward(Unit& unit, std::span<Variable* const> outputs) {
  if (summoned_) return;
  const bool is_root = &unit == units_.front().get();
  if (is_root && options_.precision.output) cast_floating(outputs, *options_.precision.output);
  if (backward_is_running()) return;
  left_.push_back(&unit);
  if (!is_root && (traits().frees_after_forward || !grad_mode())) unit.reshard();
  // An optimizer or a loader may write the numbers next, without a backward: nobody reads them any more then.
  if (is_root)
    settle();
  else if (!root_is_running_)
    unit.settle();
  if (is_root) root_is_running_ = false;
}

// Backward.

void Sharding::Engine::backward_started(std::span<const Variable> leaves) {
  if (summoned_ || !materialized_) return;
  if (!backward_is_nested()) forget_last_backward();
  bool reaches = false;
  for (const Variable& leaf : leaves)
    if (const auto found = unit_of_.find(leaf.impl().get()); found != unit_of_.end()) {
      ++leaves_[found->second];
      ++pending_[found->second];
      reaches = true;
    }
  if (!reaches) return;  // another model's, or one for gradients of inputs: no other rank need know of it
  const bool is_first = !std::exchange(reaches_, true);
  if (is_first) queue_end();
  if (buckets_ && is_first && reduces_now()) buckets_->begin(leaves);
  for (size_t i = 0; i < units_.size(); ++i)
    if (pending_[i] > 0 && !traits().shards_gradients) units_[i]->prepare_gradients();
  if (is_first && reduces_now()) start_agreement();
}

/// Also what it left if an exception ended it.
void Sharding::Engine::forget_last_backward() {
  if (std::exchange(backward_is_open_, false) && reaches_) abandon_backward();
  std::fill(leaves_.begin(), leaves_.end(), 0);
  std::fill(pending_.begin(), pending_.end(), 0);
  std::fill(finished_.begin(), finished_.end(), false);
  reaches_ = agreed_ = root_is_running_ = false;
  position_ = left_.size();
  order_is_complete_ = true;
  for (const auto& unit : units_) unit->forget_unfinished();
}

void Sharding::Engine::queue_end() {
  if (!std::exchange(backward_is_open_, true)) queue_backward_end([this] { backward_ended(); });
}

void Sharding::Engine::start_agreement() {
  const size_t n = units_.size();
  std::vector<int32_t> flags(2 * n);
  for (size_t i = 0; i < n; ++i) {
    flags[i] = pending_[i] > 0;
    flags[n + i] = units_[i]->has_unreduced();
  }
  reached_ = Tensor::from(std::span<const int32_t>(flags), {std::ssize(flags)});
  agreement_ = everyone_->all_reduce(reached_, Reduction::sum, {.unit = "units reached by backward"});
}

void Sharding::Engine::agree_on_reached() {
  if (agreed_) return;
  agreement_.wait();
  agreed_ = true;
}

void Sharding::Engine::before_backward(size_t index) {
  if (summoned_) return;
  Unit& unit = *units_[index];
  everyone_->poll();
  queue_end();
  gather(unit);
  if (pending_[index] > 0) unit.prepare_gradients();
  if (options_.backward_prefetch == BackwardPrefetch::pre) prefetch_backward(unit);
}

void Sharding::Engine::prefetch_backward(const Unit& unit) {
  for (size_t i = std::min(position_, left_.size()); i-- > 0;) {
    if (left_[i] != &unit) continue;
    position_ = i;
    for (size_t ahead = 1; ahead <= std::min(i, units_ahead()); ++ahead) left_[i - ahead]->unshard();
    return;
  }
}

void Sharding::Engine::leaf_finished(const VariableImpl* leaf) {
  const auto found = unit_of_.find(leaf);
  if (summoned_ || found == unit_of_.end()) return;
  if (buckets_ && reduces_now()) buckets_->finish_leaf(leaf);
  if (--pending_[found->second] > 0) return;
  unit_finished(found->second);
}

void Sharding::Engine::unit_finished(size_t index) {
  Unit& unit = *units_[index];
  everyone_->poll();
  finished_[index] = true;
  unit.mark_unreduced();
  // Who has given all leaves their gradients is read no more. What is frozen, or not a leaf of this backward,
  // may be read until the unit's inputs have theirs.
  if (leaves_[index] >= unit.parameter_count()) free_after_backward(unit);
  if (!reduces_now() || buckets_ || options_.strategy == Strategy::shard_optim) return;
  agree_on_reached();
  // What some ranks alone reached is reduced at the end, in the order of the units: the same on all.
  if (reached_.data<int32_t>()[index] == everyone_->size()) start_reduce(unit);
}

void Sharding::Engine::inputs_have_gradients(size_t index) {
  if (!summoned_ && pending_[index] <= 0) free_after_backward(*units_[index]);
}

void Sharding::Engine::free_after_backward(Unit& unit) {
  if (!keeps_gathered()) unit.reshard();
  if (options_.backward_prefetch == BackwardPrefetch::post) prefetch_backward(unit);
}

void Sharding::Engine::start_reduce(Unit& unit) {
  // While one unit's gradients travel, another's are computed: no third one's are held.
  if (traits().shards_gradients) finish_reductions();
  unit.reduce();
  reducing_.push_back(&unit);
}

void Sharding::Engine::finish_reductions() {
  for (Unit* unit : reducing_) unit->finish_reduce();
  reducing_.clear();
}

/// Reduces what backward's own moments left: units that some ranks alone reached, gradients that wait from
/// earlier micro-batches, all of shard_optim's.
void Sharding::Engine::reduce_rest() {
  if (buckets_) buckets_->finish();
  agree_on_reached();
  for (size_t i = 0; i < units_.size(); ++i) {
    const int32_t* ranks = reached_.data<int32_t>();
    const bool anywhere = ranks[i] > 0 || ranks[units_.size() + i] > 0;
    if (buckets_) {
      for (const auto& flat : units_[i]->flats())
        if (flat->is_trainable()) flat->accept_averaged(anywhere);
      continue;
    }
    if (!anywhere || units_[i]->state() == Unit::State::reducing) continue;
    if (finished_[i] && !units_[i]->has_unreduced()) continue;  // done already
    start_reduce(*units_[i]);
  }
  finish_reductions();
}

/// What a backward that did not end has left: no optimizer must get it.
void Sharding::Engine::abandon_backward() {
  if (buckets_) buckets_->abandon();
  for (const auto& unit : units_) unit->abandon();
  reducing_.clear();
}

void Sharding::Engine::backward_ended() {
  if (reaches_ && reduces_now()) reduce_rest();
  if (!keeps_gathered())
    for (const auto& unit : units_) unit->reshard();
  settle();
  backward_is_open_ = false;
}

void Sharding::Engine::settle() {
  for (const auto& unit : units_) unit->settle();
}

}  // namespace tessera::dist
