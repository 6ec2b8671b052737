#pragma once  // internal

#include "dist/fsdp/estimate.h"
#include "dist/fsdp/shard.h"
#include "dist/launch/world.h"
#include "dist/train/config/training_config.h"

namespace tessera::training {

/// How `dist::shard` shards a model, or the stages of one, under this configuration. Throws ConfigError for
/// groups that do not divide the ranks.
dist::ShardOptions sharding_options(const TrainingConfig& config, dist::World& world, dist::UnitPolicy units);

/// The same sharding over so many ranks for `dist::estimate`: that of the first rank. Throws as
/// `sharding_options`.
dist::EstimateOptions estimate_options(const TrainingConfig& config, int ranks);

}  // namespace tessera::training
