#include "dist/train/engine/sharding_options.h"

#include <utility>

#include "tensor/error.h"

namespace tessera::training {
namespace {

/// The ranks that hold one copy of the model together.
int shard_group(const TrainingConfig& config, int ranks) {
  const int group = config.shard_group_size == 0 ? ranks : config.shard_group_size;
  require<ConfigError>(ranks % group == 0, "shard_group_size ", group, ": expected a divisor of the ", ranks,
                       " ranks");
  return group;
}

DType compute_dtype(const TrainingConfig& config) {
  if (config.precision == PrecisionMode::f32) return f32;
  return config.precision == PrecisionMode::bf16 ? bf16 : f16;
}

dist::MessageOptions message_options(const TrainingConfig& config) {
  return {.gather_elements = config.gather_bucket_size,
          .reduce_elements = config.reduce_bucket_size,
          .prefetch_elements = config.prefetch_bucket_size,
          .reduce_scatter = config.reduce_scatter,
          .all_gather = config.gather_partitions,
          .overlap = config.overlap_communication};
}

}  // namespace

dist::ShardOptions sharding_options(const TrainingConfig& config, dist::World& world,
                                    dist::UnitPolicy units) {
  const StageOptions& stages = config.stages;
  const dist::StrategyTraits traits = dist::traits_of(config.strategy);
  const int ranks = data_ranks(stages, world.size());
  const int group = shard_group(config, ranks);
  std::vector<dist::MeshDimension> dimensions;
  if (stages.stages > 0) dimensions.push_back({"pipeline", stages.stages});
  if (traits.replicates) dimensions.push_back({"replica", ranks / group});
  dimensions.push_back({"shard", traits.replicates ? group : ranks});
  dist::ShardOptions options{.mesh = dist::Mesh(world, std::move(dimensions))};
  options.strategy = config.strategy;
  options.backward_prefetch = config.backward_prefetch;
  if (config.precision != PrecisionMode::f32) options.precision.compute = compute_dtype(config);
  options.messages = message_options(config);
  if (config.reduce_bucket_size < options.bucket_bytes / 4)
    options.bucket_bytes = config.reduce_bucket_size * 4;
  options.units = std::move(units);
  return options;
}

dist::EstimateOptions estimate_options(const TrainingConfig& config, int ranks) {
  const int group = shard_group(config, ranks);
  const bool replicates = dist::traits_of(config.strategy).replicates;
  return {.strategy = config.strategy,
          .shards = replicates ? group : ranks,
          .replicas = replicates ? ranks / group : 1,
          .compute = compute_dtype(config),
          .backward_prefetch = config.backward_prefetch,
          .messages = message_options(config),
          .micro_batches = config.accumulation_steps,
          .accumulate_communication = config.accumulate_communication};
}

}  // namespace tessera::training
