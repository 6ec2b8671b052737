#pragma once  // internal

#include "dist/train/config/training_config.h"
#include "nn/layers/containers.h"
#include "nn/module.h"

namespace tessera::training {

/// The layers of a stage that are checkpointed under this configuration.
nn::ActivationCheckpointing checkpointing_of(const TrainingConfig& config);

/// Checkpoints the modules that the configuration chooses: outside of stages those of the interval, and those
/// that `activation_checkpoint` matches. Throws ConfigError as `nn::checkpoint_every_kth` and
/// `nn::checkpoint_matching`.
void checkpoint_modules(nn::Module& model, const TrainingConfig& config);

}  // namespace tessera::training
