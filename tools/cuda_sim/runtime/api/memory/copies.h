// Copies as the calls of CUDA's runtime describe them.
#pragma once

#include "tools/cuda_sim/runtime/memory/copy_work.h"

namespace tessera::cuda_sim {

CopyParameters bytes_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
CopyParameters rows_copy(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                         size_t height, cudaMemcpyKind kind);
/// False for what is not simulated: arrays.
bool block_copy(const cudaMemcpy3DParms* parameters, CopyParameters& copy);

cudaError_t copy(const char* name, CopyParameters parameters, cudaStream_t stream, bool is_asynchronous);
cudaError_t copy_blocks(const char* name, const cudaMemcpy3DParms* parameters, cudaStream_t stream,
                        bool is_asynchronous);
cudaError_t copy_symbol(const char* name, const void* symbol, void* host, size_t bytes, size_t offset,
                        cudaMemcpyKind kind, bool to_symbol, cudaStream_t stream, bool is_asynchronous);

}  // namespace tessera::cuda_sim
