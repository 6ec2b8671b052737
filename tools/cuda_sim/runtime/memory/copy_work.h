// Copies: between host and device, within a device, between devices, in up to three dimensions.
#pragma once

#include "tools/cuda_sim/runtime/graph/node_parameters.h"
#include "tools/cuda_sim/runtime/state/call.h"

namespace tessera::cuda_sim {

/// Checks pointers, pitches, bounds and direction; the error that a call with them returns.
cudaError_t check_copy(Call& call, const CopyParameters& copy);
/// Issues or captures a copy on a stream, and lets the host wait where CUDA's runtime does so ("API
/// synchronization behavior"): `is_asynchronous` is that of the call's name.
cudaError_t issue_copy(Call& call, Stream& stream, CopyParameters copy, bool is_asynchronous);
/// Carries a copy out.
void run_copy(Runtime& runtime, const CopyParameters& copy, Operation operation);

/// A range of device memory as operations use it: whether it lies inside one live allocation. `what` names it
/// in the finding.
cudaError_t check_device_range(Call& call, uint64_t address, uint64_t bytes, const char* what);

}  // namespace tessera::cuda_sim
