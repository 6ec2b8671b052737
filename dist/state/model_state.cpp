#include "dist/state/model_state.h"

#include "nn/module.h"

namespace tessera::dist {
namespace {

void collect_buffers(const nn::Module& module, const std::string& prefix, std::vector<NamedTensor>& buffers) {
  for (const nn::Module::Slot& slot : module.slots())
    if (slot.is_buffer && slot.persistent) buffers.push_back({prefix + slot.name, slot.variable.value()});
  for (const nn::Module::Child& child : module.children())
    collect_buffers(*child.module, prefix + child.name + ".", buffers);
}

}  // namespace

Holding holding_of(const Sharding& sharding) {
  const World& world = sharding.options().mesh.world();
  return {.shards = {sharding.replicas(), sharding.replica_index()}, .wholes = {world.size(), world.rank()}};
}

std::vector<PieceGroup> pieces_of(const nn::Module& model, optim::Optimizer* optimizer,
                                  const Holding& holding) {
  std::vector<NamedTensor> buffers;
  collect_buffers(model, "", buffers);
  std::vector<PieceGroup> groups{model_pieces(model.parameters(), buffers, holding)};
  if (optimizer) groups.push_back(optimizer_pieces(optimizer->parameters(), optimizer->state(), holding));
  return groups;
}

}  // namespace tessera::dist
