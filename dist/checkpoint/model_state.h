#pragma once

#include <vector>

#include "dist/checkpoint/rank_shards.h"
#include "dist/fsdp/shard.h"
#include "optim/optimizer.h"

namespace tessera::dist {

/// The position of this rank among the ranks of a sharded model.
ShardPlacement placement_of(const Sharding& sharding);

/// What this rank saves and loads: the model, and the optimizer unless it is null.
std::vector<GroupShard> shards_of(const nn::Module& model, optim::Optimizer* optimizer,
                                  const ShardPlacement& placement);

}  // namespace tessera::dist
