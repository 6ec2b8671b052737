// A plan's execution: an operation of the simulated card.
#pragma once

#include <cuda_runtime_api.h>

#include "tools/cuda_sim/libraries/cudnn/descriptors/descriptor.h"

namespace tessera::cuda_sim::cudnn {

/// Issues the plan with a variant pack's pointers on a stream. Throws a Failure.
void execute(const DescriptorPointer& plan, const Descriptor& variant_pack, cudaStream_t stream);

}  // namespace tessera::cuda_sim::cudnn
