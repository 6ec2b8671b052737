#include "dist/train/engine/sharding_options.h"

#include <algorithm>
#include <utility>

#include "tensor/error.h"

namespace tessera::training {
namespace {

int64_t elements_of(const nn::Module& module) {
  int64_t sum = 0;
  for (const NamedParameter& parameter : module.parameters()) sum += parameter.variable.numel();
  return sum;
}

/// The elements of the largest unit: of the root what is in no unit below it.
int64_t largest_unit(nn::Module& model, const dist::UnitPolicy& units) {
  int64_t largest = 0, below = 0;
  for (const nn::Module* unit : units.choose(model)) {
    largest = std::max(largest, elements_of(*unit));
    below += elements_of(*unit);
  }
  return std::max(largest, elements_of(model) - below);
}

void require_message(const char* field, int64_t limit, int64_t largest) {
  require<NotBuiltError>(limit >= largest, field, " ", limit,
                         ": messages are of whole units, of which the largest has ", largest,
                         " elements; smaller messages are not there yet: choose smaller units");
}

}  // namespace

dist::ShardOptions sharding_options(const TrainingConfig& config, nn::Module& model, dist::World& world,
                                    dist::UnitPolicy units) {
  const dist::StrategyTraits traits = dist::traits_of(config.strategy);
  require<NotBuiltError>(config.reduce_scatter || !traits.shards_optimizer,
                         "reduce_scatter false: sharded strategies by all_reduce are not there yet");
  require<NotBuiltError>(config.gather_partitions || !traits.shards_optimizer,
                         "gather_partitions false: gathering by broadcasts is not there yet");
  require<NotBuiltError>(config.overlap_communication,
                         "overlap_communication false: reduction after backward is not there yet");
  const int group = config.shard_group_size == 0 ? world.size() : config.shard_group_size;
  require<ConfigError>(world.size() % group == 0, "shard_group_size ", group, ": expected a divisor of the ",
                       world.size(), " ranks");
  dist::ShardOptions options{
      .mesh = traits.replicates ? dist::Mesh(world, {{"replica", world.size() / group}, {"shard", group}})
                                : dist::Mesh(world)};
  options.strategy = config.strategy;
  options.backward_prefetch = config.backward_prefetch;
  if (config.precision != PrecisionMode::f32)
    options.precision.compute = config.precision == PrecisionMode::bf16 ? bf16 : f16;
  if (traits.shards_optimizer) {
    const int64_t largest = largest_unit(model, units);
    require_message("reduce_bucket_size", config.reduce_bucket_size, largest);
    require_message("gather_bucket_size", config.gather_bucket_size, largest);
    if (config.prefetch_bucket_size < largest) {  // no unit may be gathered ahead of its use
      options.backward_prefetch = dist::BackwardPrefetch::none;
      options.gathers_in_flight = 1;
    }
  } else {
    options.bucket_bytes =
        std::max<int64_t>(1, std::min<int64_t>(config.reduce_bucket_size * 4, options.bucket_bytes));
  }
  options.units = std::move(units);
  return options;
}

}  // namespace tessera::training
