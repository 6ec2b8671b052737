// What an engine does in backward: gather, compute, free, reduce, while the next unit is gathered ahead and
// the last one's gradients travel.

#include <algorithm>
#include <unordered_set>

#include "dist/fsdp/engine.h"

namespace tessera::dist {

void Sharding::Engine::backward_started(std::span<const Variable> leaves) {
  if (summoned_) refuse_summoned(leaves);
  if (summoned_ || !materialized_) return;
  if (!backward_is_nested()) forget_last_backward();
  bool reaches = false;
  for (const Variable& leaf : leaves)
    if (const auto found = unit_of_.find(leaf.impl().get()); found != unit_of_.end()) {
      ++leaves_[found->second];
      ++pending_[found->second];
      reaches = true;
    }
  if (!reaches) return;  // another model's, or one for gradients of inputs: nothing is reduced
  const bool is_first = !std::exchange(reaches_, true);
  if (is_first) queue_end();
  if (buckets_ && is_first && reduces_now()) buckets_->begin(leaves);
  for (size_t i = 0; i < units_.size(); ++i)
    if (pending_[i] > 0 && !traits().shards_gradients) units_[i]->prepare_gradients();
  if (is_first && reduces_now()) start_agreement(leaves);
}

/// Hooks do nothing then: gradients would be the rank's own.
void Sharding::Engine::refuse_summoned(std::span<const Variable> leaves) const {
  for (const Variable& leaf : leaves)
    require<ConfigError>(
        !find(leaf.impl().get()),
        "SummonFullParams: a backward that reaches the model's parameters runs while they are "
        "whole; close it before the forward that is trained");
}

/// Also what it left if an exception ended it.
void Sharding::Engine::forget_last_backward() {
  if (std::exchange(backward_is_open_, false) && reaches_) abandon_backward();
  std::fill(leaves_.begin(), leaves_.end(), 0);
  std::fill(pending_.begin(), pending_.end(), 0);
  std::fill(reduced_.begin(), reduced_.end(), false);
  reaches_ = agreed_ = root_is_running_ = false;
  position_ = left_.size();
  order_is_complete_ = true;
  for (const auto& unit : units_) {
    unit->forget_unfinished();
    unit->reshard(Unit::Hold::backward);  // of one that an exception ended
  }
}

void Sharding::Engine::queue_end() {
  if (!std::exchange(backward_is_open_, true)) queue_backward_end([this] { backward_ended(); });
}

/// Flags of this rank, to be summed: by unit, whether this backward reaches it, and whether gradients wait
/// there; then by trained parameter, whether it does or one waits.
void Sharding::Engine::start_agreement(std::span<const Variable> leaves) {
  std::unordered_set<const VariableImpl*> reached;
  for (const Variable& leaf : leaves) reached.insert(leaf.impl().get());
  std::vector<int32_t> flags;
  for (const int64_t pending : pending_) flags.push_back(pending > 0);
  for (const auto& unit : units_) flags.push_back(unit->has_unreduced());
  for_each_trained([&](FlatParameter& flat, size_t i) {
    flags.push_back(reached.contains(flat.parameters()[i].variable.impl().get()) || flat.waits(i));
  });
  reached_ = Tensor::from(std::span<const int32_t>(flags), {std::ssize(flags)});
  agreement_ = everyone_->all_reduce(reached_, Reduction::sum, {.unit = "units reached by backward"});
}

void Sharding::Engine::agree_on_reached() {
  if (agreed_) return;
  agreement_.wait();
  agreed_ = true;
  const int32_t* ranks = reached_.data<int32_t>() + 2 * units_.size();
  for_each_trained([&](FlatParameter& flat, size_t i) {
    if (*ranks++ > 0) flat.set_reached(i);
  });
}

template <class Visit>
void Sharding::Engine::for_each_trained(const Visit& visit) {
  for (const auto& unit : units_)
    for (const auto& flat : unit->flats())
      for (size_t i = 0; flat->is_trainable() && i < flat->parameters().size(); ++i) visit(*flat, i);
}

void Sharding::Engine::before_backward(size_t index) {
  if (summoned_) return;
  Unit& unit = *units_[index];
  everyone_->poll();
  hold_for_backward(unit);
  if (pending_[index] > 0) unit.prepare_gradients();
  if (options_.backward_prefetch == BackwardPrefetch::pre) prefetch_backward(unit);
}

/// What stays gathered from forward on needs none: what is freed is done with, on this rank perhaps alone.
void Sharding::Engine::prefetch_backward(const Unit& unit) {
  if (!traits().frees_after_forward) return;
  for (size_t i = std::min(position_, left_.size()); i-- > 0;) {
    if (left_[i] != &unit) continue;
    position_ = i;
    for (size_t ahead = 1; ahead <= std::min(i, units_ahead()); ++ahead)
      left_[i - ahead]->unshard(Unit::Hold::ahead);
    return;
  }
}

void Sharding::Engine::hold_for_backward(Unit& unit) {
  require_numbers(unit);
  queue_end();
  unit.unshard(Unit::Hold::backward);
  unit.reshard(Unit::Hold::ahead);
  unit.wait();
}

/// A backward needs what its hooks have not brought: it began inside a unit, or goes on where one ended.
void Sharding::Engine::provide(size_t index, FlatParameter::Demand demand) {
  if (summoned_ || !materialized_ || !backward_is_running()) return;
  if (demand == FlatParameter::Demand::numbers)
    hold_for_backward(*units_[index]);
  else if (leaves_[index] > 0)
    units_[index]->prepare_gradients();
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
  unit.mark_unreduced();
  // A unit whose leaves all have their gradients is not read again. What is frozen, or not a leaf of this
  // backward, may be read until the unit's inputs have theirs.
  if (leaves_[index] >= unit.parameter_count()) free_after_backward(unit);
  if (!reduces_now() || buckets_ || options_.strategy == Strategy::shard_optim) return;
  agree_on_reached();
  // What some ranks alone reached is reduced at the end, in the order of the units: the same on all.
  if (reached_.data<int32_t>()[index] == everyone_->size()) start_reduce(index);
}

void Sharding::Engine::inputs_have_gradients(size_t index) {
  if (!summoned_ && pending_[index] <= 0) free_after_backward(*units_[index]);
}

void Sharding::Engine::free_after_backward(Unit& unit) {
  release(unit);
  if (options_.backward_prefetch == BackwardPrefetch::post) prefetch_backward(unit);
}

/// Backward is done with a unit: gives back all holds, but where it stays for the next micro-batch.
void Sharding::Engine::release(Unit& unit) {
  if (keeps_gathered() && unit.is_gathered()) unit.unshard(Unit::Hold::kept);
  if (!keeps_gathered()) unit.reshard(Unit::Hold::kept);
  unit.reshard(Unit::Hold::ahead);
  unit.reshard(Unit::Hold::backward);
}

void Sharding::Engine::start_reduce(size_t index) {
  Unit& unit = *units_[index];
  reduced_[index] = true;

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
    if (reduced_[i] && !units_[i]->has_unreduced()) continue;
    start_reduce(i);
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
  for (const auto& unit : units_) release(*unit);
  settle();
  backward_is_open_ = false;
}

void Sharding::Engine::settle() {
  for (const auto& unit : units_) unit->settle();
}

}  // namespace tessera::dist
