// Fills.
#include "tools/cuda_sim/runtime/api/memory/fills.h"

#include <cuda_runtime_api.h>

namespace tessera::cuda_sim {

FillParameters bytes_fill(void* to, int value, size_t bytes) {
  FillParameters fill;
  fill.to = reinterpret_cast<uint64_t>(to);
  fill.value = static_cast<uint32_t>(value);
  fill.width = bytes;
  return fill;
}

FillParameters rows_fill(void* to, size_t pitch, int value, size_t width, size_t height) {
  FillParameters fill = bytes_fill(to, value, width);
  fill.pitch = pitch;
  fill.height = height;
  return fill;
}

FillParameters block_fill(const cudaPitchedPtr& to, int value, const cudaExtent& extent) {
  FillParameters fill = rows_fill(to.ptr, to.pitch, value, extent.width, extent.height);
  fill.slice = to.pitch * to.ysize;
  fill.depth = extent.depth;
  return fill;
}

cudaError_t fill(const char* name, const FillParameters& parameters, cudaStream_t handle,
                 bool is_asynchronous) {
  return api_call(name, [&](Call& call) {
    Stream* stream = call.stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return issue_fill(call, *stream, parameters, is_asynchronous);
  });
}

}  // namespace tessera::cuda_sim

using namespace tessera::cuda_sim;

extern "C" {

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return fill("cudaMemset", bytes_fill(to, value, bytes), nullptr, false);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return fill("cudaMemsetAsync", bytes_fill(to, value, bytes), stream, true);
}

cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return fill("cudaMemset2D", rows_fill(to, pitch, value, width, height), nullptr, false);
}

cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return fill("cudaMemset2DAsync", rows_fill(to, pitch, value, width, height), stream, true);
}

cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  return fill("cudaMemset3D", block_fill(to, value, extent), nullptr, false);
}

cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
  return fill("cudaMemset3DAsync", block_fill(to, value, extent), stream, true);
}

}  // extern "C"
