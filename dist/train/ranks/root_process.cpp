#include "dist/train/ranks/root_process.h"

#include <optional>

#include "nn/save.h"

namespace tessera::training {

void save0(dist::World& world, const nn::Module& model, const std::string& path, dist::Sharding* sharding) {
  std::optional<dist::SummonFullParams> full;
  if (sharding) full.emplace(*sharding);
  if (is_root_process(world)) nn::save(model, path);
  world.communicator().barrier().wait();
}

}  // namespace tessera::training
