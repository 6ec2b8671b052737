// Operations of libraries that stand in for CUDA's.
#pragma once

#include "tools/cuda_sim/runtime/graph/node_parameters.h"
#include "tools/cuda_sim/runtime/state/runtime.h"

namespace tessera::cuda_sim {

void run_library(Runtime& runtime, const LibraryParameters& library, Operation operation);
/// An access of an operation that is no kernel. False: not in a live allocation, which is a finding.
bool access_device(Runtime& runtime, Operation operation, uint64_t address, uint64_t bytes, bool writes,
                   const char* what);

}  // namespace tessera::cuda_sim
