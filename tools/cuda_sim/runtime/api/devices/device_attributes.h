// What a device states about itself.
#pragma once

#include <cuda_runtime_api.h>

#include "tools/cuda_sim/runtime/state/device_state.h"

namespace tessera::cuda_sim {

cudaDeviceProp device_properties(DeviceState& device);
/// 0 for what the simulated card does not have (textures, clusters, managed memory, ...).
int device_attribute(DeviceState& device, cudaDeviceAttr attribute);

}  // namespace tessera::cuda_sim
