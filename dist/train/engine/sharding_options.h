#pragma once  // internal

#include "dist/fsdp/shard.h"
#include "dist/launch/world.h"
#include "dist/train/config/training_config.h"

namespace tessera::training {

/// How `dist::shard` shards a model under this configuration. Throws ConfigError for groups that do not
/// divide the ranks.
dist::ShardOptions sharding_options(const TrainingConfig& config, dist::World& world, dist::UnitPolicy units);

}  // namespace tessera::training
