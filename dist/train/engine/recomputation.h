#pragma once  // internal

#include <set>
#include <string>

#include "dist/train/config/training_config.h"
#include "nn/layers/containers.h"
#include "nn/module.h"

namespace tessera::training {

/// The layers of a stage that are checkpointed under this configuration.
nn::ActivationCheckpointing checkpointing_of(const TrainingConfig& config);

/// Checkpoints the modules that a configuration chooses, as long as it lives: outside of stages those of the
/// interval, and those that `activation_checkpoint` matches. Another configuration for the same model begins
/// without them; modules that were checkpointed before remain so.
class CheckpointedModules {
 public:
  /// The model must outlive it. Throws ConfigError as `nn::checkpoint_every_kth` and
  /// `nn::checkpoint_matching`.
  CheckpointedModules(nn::Module& model, const TrainingConfig& config);
  ~CheckpointedModules();
  CheckpointedModules(const CheckpointedModules&) = delete;
  CheckpointedModules& operator=(const CheckpointedModules&) = delete;

 private:
  nn::Module& model_;
  std::set<std::string> names_;  // those that were not checkpointed before
};

}  // namespace tessera::training
