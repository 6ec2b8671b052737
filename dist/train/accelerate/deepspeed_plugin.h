#pragma once  // not in tessera.h

#include <optional>
#include <string>
#include <variant>

#include "dist/train/engine/initialize.h"

namespace tessera::training {

/// A configuration of DeepSpeed for an Accelerator. Its "auto" are the values of the program: the loader's
/// batch size, and the options of the Accelerator.
struct DeepSpeedPlugin {
  std::variant<std::string, JsonText> config;  ///< the path of a file, or its text
};

/// Accelerate's environment: where ACCELERATE_USE_DEEPSPEED is true, the file that
/// ACCELERATE_DEEPSPEED_CONFIG_FILE names; nothing where it is false or not set. `given` is the program's own
/// plugin, which takes precedence over the file. Throws ConfigError, naming the variable, for a value that is
/// neither true nor false, and where there is neither a file nor a plugin.
std::optional<DeepSpeedPlugin> plugin_from_environment(std::optional<DeepSpeedPlugin> given = {});

}  // namespace tessera::training
