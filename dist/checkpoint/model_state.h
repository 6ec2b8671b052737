#pragma once

#include <vector>

#include "dist/checkpoint/rank_shards.h"
#include "dist/fsdp/shard.h"
#include "nn/average.h"
#include "optim/optimizer.h"

namespace tessera::dist {

/// The position of this rank among the ranks of a sharded model.
ShardPlacement placement_of(const Sharding& sharding);

/// What this rank saves and loads: the model, and the optimizer unless it is null.
std::vector<GroupShard> shards_of(const nn::Module& model, optim::Optimizer* optimizer,
                                  const ShardPlacement& placement);
/// The group "average": what this rank holds of a module's average, and the number of updates. Saved beside
/// the groups of `shards_of`, and loaded in place:
///
///     std::vector<dist::GroupShard> groups = dist::shards_of(gpt, &adam, placement);
///     groups.push_back(dist::average_shards(average, placement));
GroupShard average_shards(const nn::ExponentialMovingAverage& average, const ShardPlacement& placement);

}  // namespace tessera::dist
