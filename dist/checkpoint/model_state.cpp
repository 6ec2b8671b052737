#include "dist/checkpoint/model_state.h"

#include "nn/module.h"

namespace tessera::dist {

ShardPlacement placement_of(const Sharding& sharding) {
  const Mesh& mesh = sharding.options().mesh;
  const World& world = mesh.world();
  ShardPlacement placement{.shard_replicas = {sharding.replicas(), sharding.replica_index()},
                           .full_replicas = {world.size(), world.rank()}};
  for (const MeshDimension& dimension : mesh.dimensions())
    if (dimension.size > 1)
      placement.place.push_back({dimension.name, dimension.size, mesh.index(dimension.name)});
  placement.rank_local_names = sharding.ignored_names();
  return placement;
}

std::vector<GroupShard> shards_of(const nn::Module& model, optim::Optimizer* optimizer,
                                  const ShardPlacement& placement) {
  std::vector<NamedTensor> buffers;
  model.for_each_entry([&](const std::string& name, const nn::Module::Entry& entry) {
    if (entry.is_buffer && entry.persistent) buffers.push_back({name, entry.variable.value()});
  });
  std::vector<GroupShard> groups{model_shards(model.parameters(), buffers, placement)};
  if (optimizer) groups.push_back(optimizer_shards(optimizer->parameters(), optimizer->state(), placement));
  return groups;
}

GroupShard average_shards(const nn::ExponentialMovingAverage& average, const ShardPlacement& placement) {
  const NamedTensor count{"n_averaged", average.count()};
  GroupShard group = model_shards(average.averages(), {&count, 1}, placement);
  group.name = "average";
  if (!placement.saves_common) group.shards.back().replicas = {0, 0};
  return group;
}

}  // namespace tessera::dist
