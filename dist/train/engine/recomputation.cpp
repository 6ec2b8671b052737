#include "dist/train/engine/recomputation.h"

#include <sstream>

#include "nn/checkpoint_modules.h"
#include "tensor/error.h"

namespace tessera::training {
namespace {

std::vector<std::string> kept_operations(const TrainingConfig& config) {
  std::vector<std::string> names;
  for (std::istringstream list(config.activation_checkpoint_keep); list.good();) {
    std::string name;
    std::getline(list >> std::ws, name, ',');
    while (name.ends_with(' ')) name.pop_back();
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

}  // namespace

nn::ActivationCheckpointing checkpointing_of(const TrainingConfig& config) {
  nn::ActivationCheckpointing checkpointing = config.stages.checkpointing;
  if (checkpointing.keep.empty()) checkpointing.keep = kept_operations(config);
  return checkpointing;
}

CheckpointedModules::CheckpointedModules(nn::Module& model, const TrainingConfig& config) : model_(model) {
  const nn::ActivationCheckpointing of_lists = checkpointing_of(config);
  require<ConfigError>(config.activation_checkpoint_keep.empty() || of_lists.interval > 0 ||
                           !config.activation_checkpoint.empty(),
                       "activation_checkpoint_keep ", config.activation_checkpoint_keep,
                       ": expected activation_checkpoint_interval or activation_checkpoint beside it");
  std::set<std::string> before;
  model.for_each([&before](const nn::Module& module) {
    if (module.is_checkpointed()) before.insert(module.full_name());
  });
  const auto own = [&](const std::vector<std::string>& chosen) {
    for (const std::string& name : chosen)
      if (!before.contains(name)) names_.insert(name);
  };
  if (config.stages.stages == 0) own(nn::checkpoint_every_kth(model, of_lists.interval, of_lists.keep));
  if (!config.activation_checkpoint.empty())
    own(nn::checkpoint_matching(model, config.activation_checkpoint, kept_operations(config)));
}

CheckpointedModules::~CheckpointedModules() {
  model_.for_each([this](nn::Module& module) {
    if (names_.contains(module.full_name())) module.set_checkpointed(false);
  });
}

}  // namespace tessera::training
