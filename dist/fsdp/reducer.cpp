#include "dist/fsdp/reducer.h"

#include <cmath>

#include "tensor/ops/multi_tensor.h"

namespace tessera::dist {
namespace {

Tensor gradient_of(const NamedParameter& parameter) {
  const Variable gradient = parameter.variable.grad();
  return gradient.defined() ? gradient.value() : Tensor();
}

}  // namespace

/// The sums of all parts: those of shard 0 in the order of the list, then those of shard 1, ...
std::vector<double> ShardReducer::all_pieces(const ParameterList& list, double p) const {
  const int shards = engine_.shard_group().size();
  const bool whole = !engine_.traits().shards_optimizer;
  std::vector<Tensor> parts;
  bool has_ignored = false;
  for (int shard = 0; shard < (whole ? shards : 1); ++shard)
    for (const NamedParameter& parameter : list) {
      Tensor gradient = gradient_of(parameter);
      const Sharding::Engine::Place* place = engine_.find(parameter.variable.impl().get());
      has_ignored |= !place;
      if (!place) {  // ignored by sharding: counted once
        if (shard != 0 || (!whole && engine_.shard_group().rank() != 0)) gradient = Tensor();
      } else if (whole && gradient.defined()) {
        const FlatLayout::Part part = place->flat->layout().part(place->index, shard);
        gradient = gradient.view({-1}).narrow(0, part.begin, part.numel());
      }
      parts.push_back(gradient);
    }
  const Tensor sums = ops::power_sums(parts, p);
  Tensor all = sums;
  if (!whole) {
    all = Tensor::empty({shards * sums.numel()}, f64);
    engine_.shard_group().all_gather(all, sums, {.unit = "norm"}).wait();
  }
  // Gradients of ignored parameters may differ from rank to rank; the norm must not.
  if (has_ignored) engine_.everyone().broadcast(all, 0, {.unit = "norm"}).wait();
  return {all.data<double>(), all.data<double>() + all.numel()};
}

double ShardReducer::power_sum(const ParameterList& list, double p) {
  if (list.empty()) return 0.0;
  double sum = 0.0, most = 0.0;
  for (const double piece : all_pieces(list, p)) {
    sum += piece;
    if (!(most >= piece) && most == most) most = piece;
  }
  return std::isinf(p) ? most : sum;
}

double ShardReducer::largest(double value) {
  const Tensor number = Tensor::scalar(value);
  engine_.everyone().all_reduce(number, Reduction::max, {.unit = "largest"}).wait();
  return number.item();
}

void ShardReducer::clear(const ParameterList& list) {
  for (const NamedParameter& parameter : list)
    if (const Sharding::Engine::Place* place = engine_.find(parameter.variable.impl().get()))
      place->flat->clear_gradient(place->index);
}

int ShardReducer::rank() const {
  return engine_.options().mesh.world().rank();
}

}  // namespace tessera::dist
