// Launches of kernels.
#include <cuda_runtime_api.h>

#include "tools/cuda_sim/runtime/state/call.h"
#include "tools/cuda_sim/runtime/state/launch.h"

using namespace tessera::cuda_sim;

namespace {

cudaError_t launch(const char* name, const void* host, dim3 grid, dim3 block, void** arguments, size_t shared,
                   cudaStream_t handle, bool is_cooperative) {
  return api_call(name, [&](Call& call) {
    Stream* stream = call.stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    KernelParameters kernel;
    if (const cudaError_t error =
            make_kernel_parameters(call, *stream->device, host, grid, block, arguments, shared, kernel))
      return error;
    // A barrier over the grid needs every block on the card at once; here only one block is sure of that.
    if (is_cooperative && kernel.shape.grid.count() > 1) return cudaErrorCooperativeLaunchTooLarge;
    if (const cudaError_t error = check_stream_for_work(call, *stream)) return error;
    if (stream->capture != nullptr) {
      capture_node(*stream, std::move(kernel));
      return cudaSuccess;
    }
    call.runtime.issue(call.lock, *stream, make_work(call.runtime, *stream->device, std::move(kernel)));
    // As on a card: what the kernel does wrong is the error of a later call.
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
  return launch("cudaLaunchKernel", function, grid, block, arguments, shared, stream, false);
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                        size_t shared, cudaStream_t stream) {
  return launch("cudaLaunchCooperativeKernel", function, grid, block, arguments, shared, stream, true);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  if (config == nullptr) return api_call("cudaLaunchKernelExC", [](Call&) { return cudaErrorInvalidValue; });
  bool is_cooperative = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == cudaLaunchAttributeCooperative) is_cooperative = attribute.val.cooperative != 0;
    if (attribute.id == cudaLaunchAttributeClusterDimension &&
        attribute.val.clusterDim.x * attribute.val.clusterDim.y * attribute.val.clusterDim.z > 1)
      return api_call("cudaLaunchKernelExC", [](Call& call) {
        call.report(Check::divergence, "clusters of more than one block are not simulated");
        return cudaErrorNotSupported;
      });
  }
  return launch("cudaLaunchKernelExC", function, config->gridDim, config->blockDim, arguments,
                config->dynamicSmemBytes, config->stream, is_cooperative);
}

}  // extern "C"
