#pragma once  // internal

#include <optional>
#include <string>

#include "dist/launch/world.h"
#include "tensor/device.h"

namespace tessera::training {

/// What a run computes on: by "auto" what `device` says, else a device of the accelerator's kind, which is
/// `device`, or else the ranks', or else the first one. Throws ConfigError for another name than "auto",
/// "cpu", "gpu" and "cuda", for a kind that the build does not have, and where `device` or the ranks' is of
/// another kind.
std::optional<Device> choose_device(const std::string& accelerator, std::optional<Device> device,
                                    const dist::World* world);

}  // namespace tessera::training
