// Fills as the calls of CUDA's runtime describe them.
#pragma once

#include "tools/cuda_sim/runtime/memory/fill_work.h"

namespace tessera::cuda_sim {

FillParameters bytes_fill(void* to, int value, size_t bytes);
FillParameters rows_fill(void* to, size_t pitch, int value, size_t width, size_t height);
FillParameters block_fill(const cudaPitchedPtr& to, int value, const cudaExtent& extent);
cudaError_t fill(const char* name, const FillParameters& parameters, cudaStream_t stream,
                 bool is_asynchronous);

}  // namespace tessera::cuda_sim
