// The checks of a launch, and its parameter block.
#pragma once

#include "tools/cuda_sim/runtime/graph/node_parameters.h"
#include "tools/cuda_sim/runtime/state/call.h"

namespace tessera::cuda_sim {

/// Fills `kernel` from what a launch is given; `arguments` point to the values of the parameters. Refuses
/// what the card would: extents, launch bounds, shared memory beyond what the function allows.
cudaError_t make_kernel_parameters(Call& call, DeviceState& device, const void* host, dim3 grid, dim3 block,
                                   void** arguments, size_t shared, KernelParameters& kernel);
/// Dynamic shared memory that a launch of the function may ask for.
size_t max_dynamic_shared(const DeviceState& device, const RegisteredFunction& function,
                          const Program& program);

}  // namespace tessera::cuda_sim
