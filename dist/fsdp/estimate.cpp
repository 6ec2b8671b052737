#include "dist/fsdp/estimate.h"

#include <algorithm>
#include <map>

#include "dist/fsdp/assignment.h"
#include "dist/fsdp/layout.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

/// Trained and frozen parameters, and each dtype, have a flat array of their own.
UnitEstimate measure(const UnitSizes& unit, const EstimateOptions& o) {
  std::map<std::pair<DType, bool>, std::vector<int64_t>> kinds;
  UnitEstimate result;
  result.name = unit.name;
  for (const UnitSizes::Parameter& parameter : unit.parameters) {
    kinds[{parameter.dtype, parameter.is_trained}].push_back(parameter.elements);
    result.parameters += parameter.elements;
  }
  for (const auto& [kind, sizes] : kinds) {
    const FlatLayout layout(sizes, o.shards, o.alignment);
    result.padded += layout.numel();
    if (!kind.second) continue;
    result.padded_trained += layout.numel();
    const bool is_sharded = traits_of(o.strategy).shards_optimizer;
    for (size_t i = 0; i < sizes.size(); ++i)
      result.held_trained += is_sharded ? layout.range(i, o.shard).numel() : sizes[i];
  }
  return result;
}

struct Sums {
  int64_t padded = 0, trained = 0, held_trained = 0;
};

Sums sums_of(const std::vector<UnitEstimate>& units) {
  Sums sums;
  for (const UnitEstimate& unit : units) {
    sums.padded += unit.padded;
    sums.trained += unit.padded_trained;
    sums.held_trained += unit.held_trained;
  }
  return sums;
}

/// The elements of the root and of the `count` largest other units.
int64_t root_and_largest(const std::vector<UnitEstimate>& units, size_t count,
                         int64_t UnitEstimate::*elements) {
  std::vector<int64_t> others;
  for (size_t i = 1; i < units.size(); ++i) others.push_back(units[i].*elements);
  std::sort(others.rbegin(), others.rend());
  int64_t sum = units.front().*elements;
  for (size_t i = 0; i < std::min(count, others.size()); ++i) sum += others[i];
  return sum;
}

constexpr int64_t master_bytes = 4, gradient_bytes = 4;

StateBytes state_of(const Sums& sums, const EstimateOptions& o) {
  const StrategyTraits traits = traits_of(o.strategy);
  const auto n = static_cast<int64_t>(o.shards);
  const int64_t masters = master_bytes * sums.padded / (traits.shards_optimizer ? n : 1);
  const bool is_mixed = size_of(o.compute) < master_bytes;
  StateBytes state;
  state.parameter = traits.shards_parameters ? masters : size_of(o.compute) * sums.padded;
  state.gradient = gradient_bytes * sums.trained / (traits.shards_gradients ? n : 1);
  if (!traits.shards_gradients && o.micro_batches > 1 && o.accumulate_communication)
    state.gradient += gradient_bytes * sums.trained / (traits.shards_optimizer ? n : 1);
  state.optimizer_state = o.optimizer_bytes * sums.held_trained;
  if (is_mixed && !traits.shards_parameters) state.optimizer_state += masters;
  return state;
}

StateBytes temporary_of(const std::vector<UnitEstimate>& units, const Sums& sums, const EstimateOptions& o) {
  const StrategyTraits traits = traits_of(o.strategy);
  StateBytes temporary;
  if (traits.shards_parameters) {
    const bool prefetches = o.backward_prefetch != BackwardPrefetch::none && o.messages.overlap &&
                            o.messages.prefetch_elements > 0;
    const size_t gathered = prefetches ? 2 : 1;
    temporary.communication =
        size_of(o.compute) *
        (traits.frees_after_forward ? root_and_largest(units, gathered, &UnitEstimate::padded) : sums.padded);
  }
  if (traits.shards_gradients) {
    const bool is_full = o.micro_batches > 1 && !o.accumulate_communication;
    temporary.gradient =
        gradient_bytes * (is_full ? sums.trained : root_and_largest(units, 2, &UnitEstimate::padded_trained));
  }
  return temporary;
}

/// The bytes that a rank of a group sends in an all_gather or a reduce_scatter of `bytes`.
int64_t sent(int64_t bytes, int ranks) {
  return bytes / ranks * (ranks - 1);
}

/// The bytes of its shards that a rank of a group broadcasts.
int64_t broadcast(int64_t bytes, int ranks) {
  return ranks > 1 ? bytes / ranks : 0;
}

StepTraffic traffic_of(const std::vector<UnitEstimate>& units, const Sums& sums, const EstimateOptions& o) {
  const StrategyTraits traits = traits_of(o.strategy);
  const int64_t reductions = o.accumulate_communication ? o.micro_batches : 1;
  const int64_t gathered = size_of(o.compute) * sums.padded, reduced = size_of(o.reduce) * sums.trained,
                root = size_of(o.compute) * units.front().padded;
  const TrafficFactors factors = traffic_factors(traits, o.messages.reduces_by_all_reduce(o.shards));
  const int64_t all_gathered = factors.gathered * gathered + factors.root * root;
  StepTraffic traffic;
  traffic.parameters = (traits.frees_after_forward ? o.micro_batches : 1) *
                       (o.messages.gathers_by_broadcast(o.shards) ? broadcast(all_gathered, o.shards)
                                                                  : sent(all_gathered, o.shards));
  traffic.gradients = reductions * sent(factors.reduced * reduced, o.shards);
  if (traits.replicates) traffic.gradients += reductions * 2 * sent(reduced / o.shards, o.replicas);
  return traffic;
}

}  // namespace

Estimate estimate(nn::Module& module, const UnitPolicy& units, const EstimateOptions& options) {
  std::vector<UnitSizes> sizes;
  for (const UnitPlan& unit : assign_parameters(module, units)) {
    UnitSizes& of_unit = sizes.emplace_back(UnitSizes{.name = unit.name});
    for (const UnitParameter& parameter : unit.parameters)
      of_unit.parameters.push_back(
          {parameter.variable.numel(), parameter.variable.dtype(), parameter.variable.requires_grad()});
  }
  return estimate(sizes, options);
}

Estimate estimate(const std::vector<UnitSizes>& units, const EstimateOptions& o) {
  require<ConfigError>(!units.empty(), "estimate: expected at least the root as a unit, got none");
  require<ConfigError>(o.shards >= 1 && o.replicas >= 1,
                       "estimate: expected at least 1 shard and 1 replica, got ", o.shards, " and ",
                       o.replicas);
  require<ConfigError>(o.shard >= 0 && o.shard < o.shards, "estimate: expected a shard from 0 to ",
                       o.shards - 1, ", got ", o.shard);
  require<ConfigError>(o.micro_batches >= 1, "estimate: expected at least 1 micro-batch, got ",
                       o.micro_batches);
  Estimate result;
  for (const UnitSizes& unit : units) result.units.push_back(measure(unit, o));
  const Sums sums = sums_of(result.units);
  result.state = state_of(sums, o);
  result.temporary = temporary_of(result.units, sums, o);
  result.traffic = traffic_of(result.units, sums, o);
  return result;
}

}  // namespace tessera::dist
