#pragma once  // internal

#include <vector>

#include "dist/checkpoint/checkpoint_meta.h"
#include "dist/checkpoint/checkpoint_reader.h"

namespace tessera::training {

/// Adds the tensors of `others`, which are full on one process (`SaveExtras::groups`), to a checkpoint's
/// groups.
void add_full(std::vector<dist::TensorGroup>& groups, const std::vector<dist::GroupShard>& others);

/// Those groups that the checkpoint has.
std::vector<dist::GroupShard> saved_groups(const dist::CheckpointReader& reader,
                                           const std::vector<dist::GroupShard>& groups);

}  // namespace tessera::training
