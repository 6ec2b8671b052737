#include "dist/checkpoint/model_state.h"

#include "nn/module.h"

namespace tessera::dist {
namespace {

void collect_buffers(const nn::Module& module, const std::string& prefix, std::vector<NamedTensor>& buffers) {
  for (const nn::Module::Slot& slot : module.slots())
    if (slot.is_buffer && slot.persistent) buffers.push_back({prefix + slot.name, slot.variable.value()});
  for (const nn::Module::Child& child : module.child_slots())
    collect_buffers(*child.module, prefix + child.name + ".", buffers);
}

}  // namespace

ShardPlacement placement_of(const Sharding& sharding) {
  const Mesh& mesh = sharding.options().mesh;
  const World& world = mesh.world();
  ShardPlacement placement{.shard_replicas = {sharding.replicas(), sharding.replica_index()},
                           .full_replicas = {world.size(), world.rank()}};
  for (const MeshDimension& dimension : mesh.dimensions())
    if (dimension.size > 1)
      placement.place.push_back({dimension.name, dimension.size, mesh.index(dimension.name)});
  placement.own_names = sharding.ignored_names();
  return placement;
}

std::vector<GroupShard> shards_of(const nn::Module& model, optim::Optimizer* optimizer,
                                  const ShardPlacement& placement) {
  std::vector<NamedTensor> buffers;
  collect_buffers(model, "", buffers);
  std::vector<GroupShard> groups{model_shards(model.parameters(), buffers, placement)};
  if (optimizer) groups.push_back(optimizer_shards(optimizer->parameters(), optimizer->state(), placement));
  return groups;
}

}  // namespace tessera::dist
