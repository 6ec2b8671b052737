#include "dist/train/launch/device_choice.h"

#include "tensor/error.h"

namespace tessera::training {

std::optional<Device> choose_device(const std::string& accelerator, std::optional<Device> device,
                                    const dist::World* world) {
  if (accelerator == "auto") return device;
  const bool is_cpu = accelerator == "cpu";
  require<ConfigError>(is_cpu || accelerator == "gpu" || accelerator == "cuda", "Trainer: accelerator '",
                       accelerator, "': expected auto, cpu, gpu or cuda");
  require<ConfigError>(is_cpu || cuda_is_built(), "Trainer: accelerator ", accelerator,
                       ": expected a build with CUDA, got one that has the CPU alone");
  const Device chosen = device ? *device : world ? world->device() : is_cpu ? cpu() : cuda();
  require<ConfigError>(is_cpu ? chosen.is_cpu() : chosen.is_cuda(), "Trainer: accelerator ", accelerator,
                       ": expected ", is_cpu ? "the CPU" : "a CUDA device", ", got ",
                       device ? "the option device " : "ranks on ", to_string(chosen));
  return chosen;
}

}  // namespace tessera::training
