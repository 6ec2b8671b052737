// Blocks of device memory: given out and taken back.
#pragma once

#include "tools/cuda_sim/runtime/state/call.h"

namespace tessera::cuda_sim {

/// Memory of the device, undefined. cudaErrorMemoryAllocation: there is not enough.
cudaError_t allocate_device(Call& call, DeviceState& device, size_t bytes, const char* name, void** pointer);
/// Whether `pointer` begins a live block that the program may free; a finding says why not.
cudaError_t check_freeable(Call& call, DeviceState& owner, const void* pointer);
/// Gives the block back to the device and to the pool that it came from.
void release_device(Runtime& runtime, DeviceState& owner, uint64_t address, Operation freed_by);

}  // namespace tessera::cuda_sim
