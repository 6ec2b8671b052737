#include "dist/fsdp/reducer.h"

#include <cmath>

#include "tensor/ops/training/multi_tensor.h"

namespace tessera::dist {
namespace {

Tensor gradient_of(const NamedParameter& parameter) {
  const Variable gradient = parameter.variable.grad();
  return gradient.defined() ? gradient.value() : Tensor();
}

}  // namespace

std::shared_ptr<const Sharding::Engine> ShardReducer::engine() const {
  std::shared_ptr<const Sharding::Engine> engine = engine_.lock();
  require<ConfigError>(static_cast<bool>(engine),
                       "parameters: the sharded model of this list was destroyed; keep the model as long as "
                       "an optimizer of its parameters runs");
  return engine;
}

/// The power sums of all ranges: those of shard 0 in the order of the list, then those of shard 1, ...
std::vector<double> ShardReducer::all_power_sums(const ParameterList& list, double p) const {
  const auto engine = this->engine();
  const int shards = engine->shard_group().size();
  const bool is_full = !engine->traits().shards_optimizer;
  std::vector<Tensor> ranges;
  bool has_ignored = false;
  for (int shard = 0; shard < (is_full ? shards : 1); ++shard)
    for (const NamedParameter& parameter : list) {
      Tensor gradient = gradient_of(parameter);
      const Sharding::Engine::Place* place = engine->find(parameter.variable.impl().get());
      has_ignored |= !place;
      if (!place) {  // ignored by sharding: counted once
        if (shard != 0 || (!is_full && engine->shard_group().rank() != 0)) gradient = Tensor();
      } else if (is_full && gradient.defined()) {
        const FlatLayout::Range range = place->flat->layout().range(place->index, shard);
        gradient = gradient.view({-1}).narrow(0, range.begin, range.numel());
      }
      ranges.push_back(gradient);
    }
  const Tensor sums = ops::power_sums(ranges, p);
  Tensor all = sums;
  if (!is_full) {
    all = Tensor::empty({shards * sums.numel()}, f64);
    engine->shard_group().all_gather(all, sums, {.unit = "norm"}).wait();
  }
  // Gradients of ignored parameters may differ from rank to rank; the norm must not.
  if (has_ignored) engine->all_ranks().broadcast(all, 0, {.unit = "norm"}).wait();
  return {all.data<double>(), all.data<double>() + all.numel()};
}

double ShardReducer::power_sum(const ParameterList& list, double p) {
  if (list.empty()) return 0.0;
  double total = 0.0, maximum = 0.0;
  for (const double sum : all_power_sums(list, p)) {
    total += sum;
    if (!(maximum >= sum) && maximum == maximum) maximum = sum;
  }
  return std::isinf(p) ? maximum : total;
}

void ShardReducer::take_squares(const ParameterList& list, int64_t backwards) {
  const auto engine = engine_.lock();
  if (!engine) return;
  for (const NamedParameter& parameter : list)
    if (const Sharding::Engine::Place* place = engine->find(parameter.variable.impl().get()))
      place->flat->gradient().take_squares(backwards > 0);
}

void ShardReducer::sum_over_shards(std::span<double> values) {
  const auto engine = this->engine();
  const auto count = static_cast<int64_t>(values.size());
  if (!engine->traits().shards_optimizer || count == 0) return;  // each rank has all elements
  const int shards = engine->shard_group().size();
  const Tensor own = Tensor::from(std::span<const double>(values), {count});
  const Tensor all = Tensor::empty({shards * count}, f64);
  engine->shard_group().all_gather(all, own, {.unit = "sums"}).wait();
  for (int64_t i = 0; i < count; ++i) {
    values[i] = 0.0;
    for (int shard = 0; shard < shards; ++shard) values[i] += all.data<double>()[shard * count + i];
  }
}

double ShardReducer::largest(double value) {
  const auto engine = this->engine();
  const Tensor result = Tensor::scalar(value);
  engine->all_ranks().all_reduce(result, Reduction::max, {.unit = "largest"}).wait();
  return result.item();
}

void ShardReducer::clear(const ParameterList& list) {
  const auto engine = engine_.lock();
  if (!engine) return;
  for (const NamedParameter& parameter : list)
    if (const Sharding::Engine::Place* place = engine->find(parameter.variable.impl().get()))
      place->flat->gradient().clear(place->index);
}

int ShardReducer::rank() const {
  return engine()->options().mesh.world().rank();
}

}  // namespace tessera::dist
