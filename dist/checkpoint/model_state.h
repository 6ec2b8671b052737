#pragma once

#include <vector>

#include "dist/checkpoint/rank_pieces.h"
#include "dist/fsdp/shard.h"
#include "optim/optimizer.h"

namespace tessera::dist {

/// Where this rank stands among those of a sharded model.
Holding holding_of(const Sharding& sharding);

/// All that a run saves and loads: the model, and the optimizer unless it is null.
std::vector<PieceGroup> pieces_of(const nn::Module& model, optim::Optimizer* optimizer,
                                  const Holding& holding);

}  // namespace tessera::dist
