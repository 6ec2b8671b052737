// Versions, the profiler, the way to the driver.
#include <cuda_runtime_api.h>

#include "tools/cuda_sim/runtime/state/call.h"

using namespace tessera::cuda_sim;

extern "C" {

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return cudaErrorInvalidValue;
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return cudaErrorInvalidValue;
  *version = Runtime::instance().driver_version();
  return cudaSuccess;
}

cudaError_t cudaProfilerStart() {
  return api_call("cudaProfilerStart", [](Call&) { return cudaSuccess; });
}

cudaError_t cudaProfilerStop() {
  return api_call("cudaProfilerStop", [](Call&) { return cudaSuccess; });
}

/// There is no driver behind this runtime: no symbol of it is found.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult* result) {
  return api_call("cudaGetDriverEntryPointByVersion", [&](Call&) {
    if (symbol == nullptr || function == nullptr) return cudaErrorInvalidValue;
    *function = nullptr;
    if (result == nullptr) return cudaErrorSymbolNotFound;
    *result = cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, result);
}

}  // extern "C"
