#include "dist/train/accelerate/deepspeed_plugin.h"

#include <cstdlib>
#include <string_view>

#include "tensor/error.h"

namespace tessera::training {
namespace {

constexpr const char* use = "ACCELERATE_USE_DEEPSPEED";
constexpr const char* file = "ACCELERATE_DEEPSPEED_CONFIG_FILE";

bool is_asked_for() {
  const char* const value = std::getenv(use);
  const std::string_view given = value ? value : "";
  if (given.empty() || given == "false" || given == "0") return false;
  require<ConfigError>(given == "true" || given == "1", use, ": expected true or false, got '", given, "'");
  return true;
}

}  // namespace

std::optional<DeepSpeedPlugin> plugin_from_environment(std::optional<DeepSpeedPlugin> given) {
  const bool is_asked = is_asked_for();
  if (given || !is_asked) return given;
  const char* const path = std::getenv(file);
  require<ConfigError>(path && *path, use, " is true: expected ", file,
                       ", the path of a configuration, or AcceleratorOptions::deepspeed_plugin");
  return DeepSpeedPlugin{std::string(path)};
}

}  // namespace tessera::training
