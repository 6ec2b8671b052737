#include "dist/train/ranks/root_process.h"

#include <filesystem>
#include <optional>

#include "nn/save.h"

namespace tessera::training {

void save0(dist::World& world, const nn::Module& model, const std::string& path, dist::Sharding* sharding) {
  std::optional<dist::SummonFullParams> full;
  if (sharding) full.emplace(*sharding);
  if (is_root_process(world)) nn::save(model, path);
  world.communicator().barrier().wait();
}

std::string file_of_rank(const std::string& path, int rank) {
  if (path.empty() || rank == 0) return path;
  std::filesystem::path file(path);
  const std::string extension = file.extension().string();
  return file.replace_extension(text("rank", rank) + extension).string();
}

}  // namespace tessera::training
