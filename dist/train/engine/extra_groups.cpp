#include "dist/train/engine/extra_groups.h"

namespace tessera::training {

void add_full(std::vector<dist::TensorGroup>& groups, const std::vector<dist::GroupShard>& others) {
  for (const dist::GroupShard& other : others) {
    groups.push_back({other.name, {}});
    for (const dist::TensorShard& shard : other.shards)
      groups.back().tensors.push_back({shard.name, shard.tensor});
  }
}

std::vector<dist::GroupShard> saved_groups(const dist::CheckpointReader& reader,
                                           const std::vector<dist::GroupShard>& groups) {
  std::vector<dist::GroupShard> saved;
  for (const dist::GroupShard& group : groups) {
    const auto first = reader.tensors().lower_bound({group.name, ""});
    if (first != reader.tensors().end() && first->first.group == group.name) saved.push_back(group);
  }
  return saved;
}

}  // namespace tessera::training
