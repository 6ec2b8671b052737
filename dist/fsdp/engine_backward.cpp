// The engine in backward: gather, compute, free, reduce, while the next unit is gathered ahead and the last
// unit's gradients are reduced.

#include <algorithm>
#include <unordered_set>

#include "dist/fsdp/engine.h"

namespace tessera::dist {

void Sharding::Engine::begin_backward(std::span<const Variable> leaves) {
  if (all_summoned_) require_not_summoned(leaves);
  if (all_summoned_ || !materialized_) return;
  if (!backward_is_nested()) reset_backward();
  bool reaches = false;
  for (const Variable& leaf : leaves)
    if (const auto found = unit_of_.find(leaf.impl().get()); found != unit_of_.end()) {
      ++reached_leaves_[found->second];
      ++pending_leaves_[found->second];
      reaches = true;
    }
  if (!reaches) return;  // of another model, or for gradients of inputs: nothing is reduced
  const bool is_first = !std::exchange(reaches_parameters_, true);
  if (is_first) queue_end();
  if (buckets_ && is_first && reduces_now()) buckets_->begin(leaves);
  for (size_t i = 0; i < units_.size(); ++i)
    if (pending_leaves_[i] > 0 && !traits().shards_gradients) units_[i]->prepare_gradients();
  if (is_first && reduces_now()) start_agreement(leaves);
}

/// A forward that read parameters in the dtype of the values: backward would read them in the compute dtype.
void Sharding::Engine::refuse_backward_after_summon(const Unit& unit, std::span<Variable* const> outputs) {
  if (std::none_of(unit.flats().begin(), unit.flats().end(),
                   [](const auto& flat) { return flat->is_mixed(); }))
    return;
  for (const Variable* output : outputs)
    if (output->defined() && output->requires_grad())
      output->register_hook([weak = weak_from_this(), name = unit.name()](const Variable&) {
        const auto engine = weak.lock();
        require<ConfigError>(!engine || engine->all_summoned_, "SummonFullParams: the forward of unit '",
                             name,
                             "' ran while one was open, and its backward after it, where the parameters have "
                             "their compute dtype: run forward and backward of a training step outside, and "
                             "evaluate under NoGrad");
      });
}

/// While parameters are summoned, hooks do nothing and gradients would not be reduced.
void Sharding::Engine::require_not_summoned(std::span<const Variable> leaves) const {
  for (const Variable& leaf : leaves)
    require<ConfigError>(
        !find(leaf.impl().get()),
        "SummonFullParams: a backward that reaches the model's parameters runs while it is open; "
        "close it before the forward of a training step");
}

/// Also abandons the last backward if an exception ended it.
void Sharding::Engine::reset_backward() {
  if (std::exchange(backward_is_open_, false) && reaches_parameters_) abandon_backward();
  std::fill(reached_leaves_.begin(), reached_leaves_.end(), 0);
  std::fill(pending_leaves_.begin(), pending_leaves_.end(), 0);
  std::fill(reduced_.begin(), reduced_.end(), false);
  reaches_parameters_ = agreed_ = root_is_running_ = false;
  position_ = order_->exits.size();
  order_is_complete_ = true;
  for (const auto& unit : units_) {
    unit->drop_unmarked();
    unit->reshard(Unit::Hold::backward);  // of a backward that an exception ended
  }
}

void Sharding::Engine::queue_end() {
  if (std::exchange(backward_is_open_, true)) return;
  // The model may be destroyed before the backward ends; an exception destroys the callback without a call.
  const std::weak_ptr<Engine> weak = weak_from_this();
  const std::shared_ptr<void> at_failure(nullptr, [weak](void*) {
    if (const auto engine = weak.lock()) engine->end_failed_backward();
  });
  at_backward_end([weak, at_failure] {
    if (const auto engine = weak.lock()) engine->end_backward();
  });
}

/// Sums flags over the ranks: by unit, whether this backward reaches it; by unit, whether it has unreduced
/// gradients; by trained parameter, whether either holds for it.
void Sharding::Engine::start_agreement(std::span<const Variable> leaves) {
  std::unordered_set<const VariableImpl*> reached;
  for (const Variable& leaf : leaves) reached.insert(leaf.impl().get());
  std::vector<int32_t> flags;
  for (const int64_t pending : pending_leaves_) flags.push_back(pending > 0);
  for (const auto& unit : units_) flags.push_back(unit->has_unreduced());
  for_each_trained([&](FlatParameter& flat, size_t i) {
    flags.push_back(reached.contains(flat.parameters()[i].variable.impl().get()) ||
                    flat.gradient().has_unreduced(i));
  });
  reach_counts_ = Tensor::from(std::span<const int32_t>(flags), {std::ssize(flags)});
  agreement_ = all_ranks_->all_reduce(reach_counts_, Reduction::sum, {.unit = "units reached by backward"});
  if (!options_.messages.overlap) agreement_.wait();
}

void Sharding::Engine::agree_on_reached() {
  if (agreed_) return;
  agreement_.wait();
  agreed_ = true;
  const int32_t* ranks = reach_counts_.data<int32_t>() + 2 * units_.size();
  for_each_trained([&](FlatParameter& flat, size_t i) {
    if (*ranks++ > 0) flat.gradient().set_reached(i);
  });
}

template <class Visit>
void Sharding::Engine::for_each_trained(const Visit& visit) {
  for (const auto& unit : units_)
    for (const auto& flat : unit->flats())
      for (size_t i = 0; flat->is_trainable() && i < flat->parameters().size(); ++i) visit(*flat, i);
}

void Sharding::Engine::before_backward(size_t index) {
  if (all_summoned_) return;
  Unit& unit = *units_[index];
  all_ranks_->poll();
  hold_for_backward(unit);
  if (pending_leaves_[index] > 0) unit.prepare_gradients();
  if (options_.backward_prefetch == BackwardPrefetch::pre) prefetch_backward(unit);
}

/// Only where units are freed after forward. Elsewhere a freed unit is finished, perhaps on this rank only.
void Sharding::Engine::prefetch_backward(const Unit& unit) {
  if (!traits().frees_after_forward || !options_.messages.overlap) return;
  for (size_t i = std::min(position_, order_->exits.size()); i-- > 0;) {
    if (order_->exits[i] != &unit) continue;
    position_ = i;
    for (size_t ahead = 1; ahead <= std::min(i, units_ahead()); ++ahead)
      if (!is_of_earlier_forward(i - ahead)) prefetch(*order_->exits[i - ahead]);
    return;
  }
}

/// Whether a call in the order of exits belongs to a forward that this backward does not reach: several
/// micro-batches went forward before it, and it has finished the unit in a later call.
bool Sharding::Engine::is_of_earlier_forward(size_t position) const {
  const Unit* unit = order_->exits[position];
  const auto own =
      std::find_if(units_.begin(), units_.end(), [&](const auto& each) { return each.get() == unit; });
  if (pending_leaves_[static_cast<size_t>(own - units_.begin())] > 0) return false;
  const auto next = order_->exits.begin() + static_cast<std::ptrdiff_t>(position) + 1;
  return std::find(next, order_->exits.end(), unit) != order_->exits.end();
}

void Sharding::Engine::hold_for_backward(Unit& unit) {
  require_values(unit);
  queue_end();
  unit.unshard(Unit::Hold::backward);
  unit.reshard(Unit::Hold::prefetch);
  unit.wait();
}

/// Prepares memory that a backward needs and that no hook has prepared: it began inside a unit, or continues
/// where another backward ended.
void Sharding::Engine::provide(size_t index, FlatParameter::Demand demand) {
  if (all_summoned_ || !materialized_ || !backward_is_running()) return;
  if (demand == FlatParameter::Demand::parameters)
    hold_for_backward(*units_[index]);
  else if (reached_leaves_[index] > 0)
    units_[index]->prepare_gradients();
}

void Sharding::Engine::finish_leaf(const VariableImpl* leaf) {
  const auto found = unit_of_.find(leaf);
  if (all_summoned_ || found == unit_of_.end()) return;
  if (buckets_ && reduces_now()) buckets_->finish_leaf(leaf);
  if (--pending_leaves_[found->second] > 0) return;
  finish_unit(found->second);
}

void Sharding::Engine::finish_unit(size_t index) {
  Unit& unit = *units_[index];
  all_ranks_->poll();
  unit.mark_unreduced();
  // Backward reads a leaf's value until its gradient is complete; a parameter that is frozen, or no leaf of
  // this backward, until the gradients of the unit's inputs are.
  if (reached_leaves_[index] >= unit.parameter_count()) free_after_backward(unit);
  if (!reduces_now() || buckets_ || !traits().reduces_in_backward) return;
  agree_on_reached();
  // Units that only some ranks reach are reduced at the end, in an order that all ranks share.
  if (reach_counts_.data<int32_t>()[index] == all_ranks_->size()) start_reduce(index);
}

void Sharding::Engine::after_backward(size_t index) {
  if (!all_summoned_ && pending_leaves_[index] <= 0) free_after_backward(*units_[index]);
}

void Sharding::Engine::free_after_backward(Unit& unit) {
  release_holds(unit);
  if (options_.backward_prefetch == BackwardPrefetch::post) prefetch_backward(unit);
}

/// Ends all holds of a unit that backward has finished, unless it stays gathered for the next micro-batch.
void Sharding::Engine::release_holds(Unit& unit) {
  if (keeps_gathered() && unit.is_gathered()) unit.unshard(Unit::Hold::kept);
  if (!keeps_gathered()) unit.reshard(Unit::Hold::kept);
  unit.reshard(Unit::Hold::prefetch);
  unit.reshard(Unit::Hold::backward);
}

void Sharding::Engine::start_reduce(size_t index) {
  Unit& unit = *units_[index];
  reduced_[index] = true;

  // Memory holds the gradients of two units: one that is reduced, one that is computed.
  if (traits().shards_gradients) finish_reductions();
  unit.reduce();
  reducing_.push_back(&unit);
  if (!options_.messages.overlap) finish_reductions();
}

void Sharding::Engine::finish_reductions() {
  for (Unit* unit : reducing_) unit->finish_reduce();
  reducing_.clear();
}

/// Reduces what was not reduced while backward ran: units that only some ranks reach, unreduced gradients of
/// earlier micro-batches, under shard_optim all gradients.
void Sharding::Engine::reduce_remaining() {
  if (buckets_) buckets_->finish();
  agree_on_reached();
  for (size_t i = 0; i < units_.size(); ++i) {
    const int32_t* ranks = reach_counts_.data<int32_t>();
    const bool anywhere = ranks[i] > 0 || ranks[units_.size() + i] > 0;
    if (buckets_) {
      for (const auto& flat : units_[i]->flats())
        if (flat->is_trainable()) flat->gradient().accept_averaged(anywhere);
      continue;
    }
    if (!anywhere || units_[i]->state() == Unit::State::reducing) continue;
    if (reduced_[i] && !units_[i]->has_unreduced()) continue;
    start_reduce(i);
  }
  finish_reductions();
}

void Sharding::Engine::reduce_accumulated() {
  require<ConfigError>(!is_in_use() && !accumulation.open,
                       "reduce_gradients: expected a call between backwards and outside of Accumulation");
  require<ConfigError>(!all_summoned_, "reduce_gradients: SummonFullParams is open; close it before");
  if (!materialized_) return;
  reset_backward();
  if (buckets_) buckets_->begin({});
  start_agreement({});
  reduce_remaining();
  for (const auto& unit : units_) release_holds(*unit);
  wait_for_readers();
}

/// Drops what a backward that did not end has left, so that no optimizer receives it.
void Sharding::Engine::abandon_backward() {
  if (buckets_) buckets_->abandon();
  for (const auto& unit : units_) unit->abandon();
  reducing_.clear();
}

void Sharding::Engine::end_backward() {
  if (reaches_parameters_ && reduces_now()) reduce_remaining();
  for (const auto& unit : units_) release_holds(*unit);
  wait_for_readers();
  backward_is_open_ = false;
}

/// What is in flight is waited for when the next backward begins, and dropped then.
void Sharding::Engine::end_failed_backward() {
  if (!backward_is_open_ || !reaches_parameters_) return;
  for (const auto& unit : units_) unit->restore_published();
}

void Sharding::Engine::wait_for_readers() {
  for (const auto& unit : units_) unit->wait_for_readers();
}

}  // namespace tessera::dist
