// Attributes of kernels, and occupancy.
#include <cuda_runtime_api.h>

#include <cstring>

#include "tools/cuda_sim/runtime/state/call.h"
#include "tools/cuda_sim/runtime/state/launch.h"

using namespace tessera::cuda_sim;

namespace {

/// Runs `body(Call&, RegisteredFunction&, const Program&)` for a kernel that the device has.
template <class Body>
cudaError_t with_kernel(const char* name, const void* host, Body body) {
  return api_call(name, [&](Call& call) {
    RegisteredFunction* function = call.runtime.kernels.find(host);
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    cudaError_t error = cudaSuccess;
    const Program* program = call.runtime.kernels.program(call.device(), *function, error);
    return program == nullptr ? error : body(call, *function, *program);
  });
}

int blocks_of(Call& call, const Program& program, int block_size, size_t dynamic_shared) {
  if (block_size > static_cast<int>(program.max_threads)) return 0;
  return blocks_per_multiprocessor(*call.device().architecture, block_size,
                                   program.static_shared_bytes + dynamic_shared, assumed_registers);
}

}  // namespace

extern "C" {

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* host) {
  return with_kernel(
      "cudaFuncGetAttributes", host, [&](Call& call, RegisteredFunction& function, const Program& program) {
        if (attributes == nullptr) return cudaErrorInvalidValue;
        const DeviceState& device = call.device();
        *attributes = {};
        attributes->sharedSizeBytes = program.static_shared_bytes;
        attributes->localSizeBytes = program.local_bytes;
        attributes->maxThreadsPerBlock = static_cast<int>(program.max_threads);
        attributes->numRegs = assumed_registers;
        attributes->ptxVersion = attributes->binaryVersion = device.architecture->capability;
        attributes->maxDynamicSharedSizeBytes =
            static_cast<int>(max_dynamic_shared(device, function, program));
        const auto carveout = function.carveout.find(device.index());
        attributes->preferredShmemCarveout =
            carveout == function.carveout.end() ? cudaSharedmemCarveoutDefault : carveout->second;
        return cudaSuccess;
      });
}

cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute, int value) {
  return with_kernel("cudaFuncSetAttribute", host,
                     [&](Call& call, RegisteredFunction& function, const Program& program) {
                       const DeviceState& device = call.device();
                       switch (attribute) {
                         case cudaFuncAttributeMaxDynamicSharedMemorySize:
                           if (value < 0 || static_cast<size_t>(value) + program.static_shared_bytes >
                                                device.architecture->shared_per_block_opt_in)
                             return cudaErrorInvalidValue;
                           function.max_dynamic_shared[device.index()] = value;
                           return cudaSuccess;
                         case cudaFuncAttributePreferredSharedMemoryCarveout:
                           if (value < cudaSharedmemCarveoutDefault || value > cudaSharedmemCarveoutMaxShared)
                             return cudaErrorInvalidValue;
                           function.carveout[device.index()] = value;
                           return cudaSuccess;
                         case cudaFuncAttributeNonPortableClusterSizeAllowed:
                         case cudaFuncAttributeClusterSchedulingPolicyPreference:
                           return cudaSuccess;
                         default:
                           return cudaErrorInvalidValue;
                       }
                     });
}

cudaError_t cudaFuncSetCacheConfig(const void* host, cudaFuncCache) {
  return with_kernel("cudaFuncSetCacheConfig", host,
                     [](Call&, RegisteredFunction&, const Program&) { return cudaSuccess; });
}

cudaError_t cudaFuncGetName(const char** text, const void* host) {
  return with_kernel("cudaFuncGetName", host, [&](Call&, RegisteredFunction& function, const Program&) {
    if (text == nullptr) return cudaErrorInvalidValue;
    *text = function.name.c_str();
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetParamInfo(const void* host, size_t index, size_t* offset, size_t* bytes) {
  return with_kernel("cudaFuncGetParamInfo", host, [&](Call&, RegisteredFunction&, const Program& program) {
    if (index >= program.parameters.size() || offset == nullptr) return cudaErrorInvalidValue;
    *offset = program.parameters[index].offset;
    if (bytes != nullptr) *bytes = program.parameters[index].bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* host) {
  return with_kernel("cudaGetFuncBySymbol", host, [&](Call&, RegisteredFunction&, const Program&) {
    if (function == nullptr) return cudaErrorInvalidValue;
    *function = reinterpret_cast<cudaFunction_t>(const_cast<void*>(host));
    return cudaSuccess;
  });
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  return with_kernel("cudaGetKernel", host, [&](Call&, RegisteredFunction&, const Program&) {
    if (kernel == nullptr) return cudaErrorInvalidValue;
    *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* host,
                                                                   int block_size, size_t dynamic_shared,
                                                                   unsigned flags) {
  return with_kernel("cudaOccupancyMaxActiveBlocksPerMultiprocessor", host,
                     [&](Call& call, RegisteredFunction&, const Program& program) {
                       if (blocks == nullptr || block_size < 1 || flags > cudaOccupancyDisableCachingOverride)
                         return cudaErrorInvalidValue;
                       *blocks = blocks_of(call, program, block_size, dynamic_shared);
                       return cudaSuccess;
                     });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host, int block_size,
                                                          size_t dynamic_shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, block_size, dynamic_shared,
                                                                cudaOccupancyDefault);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* host, int blocks,
                                                      int block_size) {
  return with_kernel("cudaOccupancyAvailableDynamicSMemPerBlock", host,
                     [&](Call& call, RegisteredFunction&, const Program& program) {
                       if (bytes == nullptr || blocks < 1 || block_size < 1) return cudaErrorInvalidValue;
                       const Architecture& architecture = *call.device().architecture;
                       size_t most = architecture.shared_per_block_opt_in -
                                     std::min<size_t>(architecture.shared_per_block_opt_in,
                                                      program.static_shared_bytes);
                       most -= most % shared_granularity;
                       while (most != 0 && blocks_of(call, program, block_size, most) < blocks)
                         most -= shared_granularity;
                       if (blocks_of(call, program, block_size, most) < blocks) return cudaErrorInvalidValue;
                       *bytes = most;
                       return cudaSuccess;
                     });
}

}  // extern "C"
