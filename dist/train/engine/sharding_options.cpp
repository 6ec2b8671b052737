#include "dist/train/engine/sharding_options.h"

#include <utility>

#include "tensor/error.h"

namespace tessera::training {

dist::ShardOptions sharding_options(const TrainingConfig& config, dist::World& world,
                                    dist::UnitPolicy units) {
  const dist::StrategyTraits traits = dist::traits_of(config.strategy);
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
  options.messages = {.gather_elements = config.gather_bucket_size,
                      .reduce_elements = config.reduce_bucket_size,
                      .prefetch_elements = config.prefetch_bucket_size,
                      .reduce_scatter = config.reduce_scatter,
                      .all_gather = config.gather_partitions,
                      .overlap = config.overlap_communication};
  if (config.reduce_bucket_size < options.bucket_bytes / 4)
    options.bucket_bytes = config.reduce_bucket_size * 4;
  options.units = std::move(units);
  return options;
}

}  // namespace tessera::training
