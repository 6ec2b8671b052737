#pragma once  // internal

#include "dist/fsdp/shard.h"
#include "dist/launch/world.h"
#include "dist/train/config/training_config.h"
#include "nn/module.h"

namespace tessera::training {

/// How `dist::shard` shards a model under this configuration. Throws NotBuiltError, naming the field, for
/// what sharding does not have yet, and ConfigError for groups that do not divide the ranks.
dist::ShardOptions sharding_options(const TrainingConfig& config, nn::Module& model, dist::World& world,
                                    dist::UnitPolicy units);

}  // namespace tessera::training
