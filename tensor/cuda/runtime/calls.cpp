// The functions of the CUDA runtime that Tessera and nvcc's objects call. Each one passes its call on to the
// runtime that is loaded; without one it fails as a machine without driver does.
#include <atomic>

#include "tensor/cuda/runtime/library.h"
#include "tensor/cuda/runtime/symbols.h"

/// Defines the runtime's function `name` with these parameters and arguments.
#define TESSERA_FORWARD(name, parameters, arguments)                                    \
  TESSERA_STAND_IN cudaError_t CUDARTAPI name parameters {                              \
    using Function = cudaError_t(CUDARTAPI*) parameters;                                \
    static std::atomic<Function> kept{nullptr};                                         \
    Function function = kept.load(std::memory_order_acquire);                           \
    if (function == nullptr) {                                                          \
      function = reinterpret_cast<Function>(tessera::cuda_runtime::find_symbol(#name)); \
      kept.store(function, std::memory_order_release);                                  \
    }                                                                                   \
    return function != nullptr ? function arguments : cudaErrorInsufficientDriver;      \
  }

extern "C" {

// Launches: what nvcc's objects call.
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes, cudaStream_t stream);
char __cudaInitModule(void** handle);
TESSERA_STAND_IN unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                                      cudaStream_t stream) {
  static const auto function = reinterpret_cast<unsigned (*)(dim3, dim3, size_t, cudaStream_t)>(
      tessera::cuda_runtime::find_symbol("__cudaPushCallConfiguration"));
  return function != nullptr ? function(grid, block, shared_bytes, stream) : 1;  // 1: there is no launch
}
TESSERA_FORWARD(__cudaPopCallConfiguration, (dim3 * grid, dim3* block, size_t* shared_bytes, void* stream),
                (grid, block, shared_bytes, stream))
TESSERA_FORWARD(__cudaGetKernel, (cudaKernel_t * kernel, const void* f), (kernel, f))
TESSERA_FORWARD(__cudaLaunchKernel,
                (cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                 cudaStream_t stream),
                (kernel, grid, block, arguments, shared_bytes, stream))
TESSERA_FORWARD(cudaLaunchKernel,
                (const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                 cudaStream_t stream),
                (kernel, grid, block, arguments, shared_bytes, stream))

// Errors.
TESSERA_FORWARD(cudaGetLastError, (), ())
TESSERA_FORWARD(cudaPeekAtLastError, (), ())
TESSERA_STAND_IN const char* CUDARTAPI cudaGetErrorName(cudaError_t status) {
  const auto function =
      reinterpret_cast<decltype(&cudaGetErrorName)>(tessera::cuda_runtime::find_symbol("cudaGetErrorName"));
  return function != nullptr ? function(status) : "cudaErrorInsufficientDriver";
}
TESSERA_STAND_IN const char* CUDARTAPI cudaGetErrorString(cudaError_t status) {
  const auto function = reinterpret_cast<decltype(&cudaGetErrorString)>(
      tessera::cuda_runtime::find_symbol("cudaGetErrorString"));
  return function != nullptr ? function(status) : "no CUDA runtime is loaded";
}

// Devices.
TESSERA_FORWARD(cudaGetDeviceCount, (int* count), (count))
TESSERA_FORWARD(cudaSetDevice, (int device), (device))
TESSERA_FORWARD(cudaGetDevice, (int* device), (device))
TESSERA_FORWARD(cudaDeviceGetAttribute, (int* value, cudaDeviceAttr attribute, int device),
                (value, attribute, device))
TESSERA_FORWARD(cudaDeviceSynchronize, (), ())
TESSERA_FORWARD(cudaRuntimeGetVersion, (int* version), (version))
TESSERA_FORWARD(cudaDriverGetVersion, (int* version), (version))
TESSERA_FORWARD(cudaDeviceCanAccessPeer, (int* can, int device, int peer), (can, device, peer))
TESSERA_FORWARD(cudaDeviceEnablePeerAccess, (int peer, unsigned flags), (peer, flags))
TESSERA_FORWARD(cudaFuncSetAttribute, (const void* kernel, cudaFuncAttribute attribute, int value),
                (kernel, attribute, value))
TESSERA_FORWARD(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
                (int* blocks, const void* kernel, int block_size, size_t shared_bytes),
                (blocks, kernel, block_size, shared_bytes))

TESSERA_FORWARD(cudaFuncGetAttributes, (cudaFuncAttributes * attributes, const void* kernel),
                (attributes, kernel))
TESSERA_FORWARD(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
                (int* blocks, const void* kernel, int block_size, size_t shared_bytes, unsigned flags),
                (blocks, kernel, block_size, shared_bytes, flags))

// Memory.
TESSERA_FORWARD(cudaMalloc, (void** address, size_t bytes), (address, bytes))
TESSERA_FORWARD(cudaFree, (void* address), (address))
TESSERA_FORWARD(cudaHostAlloc, (void** address, size_t bytes, unsigned flags), (address, bytes, flags))
TESSERA_FORWARD(cudaFreeHost, (void* address), (address))
TESSERA_FORWARD(cudaMemGetInfo, (size_t * free, size_t* total), (free, total))
TESSERA_FORWARD(cudaMemcpyAsync,
                (void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
                (to, from, bytes, kind, stream))
TESSERA_FORWARD(cudaMemcpy2DAsync,
                (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                 cudaMemcpyKind kind, cudaStream_t stream),
                (to, to_pitch, from, from_pitch, width, height, kind, stream))
TESSERA_FORWARD(cudaMemcpyPeerAsync,
                (void* to, int to_device, const void* from, int from_device, size_t bytes,
                 cudaStream_t stream),
                (to, to_device, from, from_device, bytes, stream))
TESSERA_FORWARD(cudaMemsetAsync, (void* to, int value, size_t bytes, cudaStream_t stream),
                (to, value, bytes, stream))

// Streams and events.
TESSERA_FORWARD(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), (stream, flags))
TESSERA_FORWARD(cudaStreamDestroy, (cudaStream_t stream), (stream))
TESSERA_FORWARD(cudaStreamSynchronize, (cudaStream_t stream), (stream))
TESSERA_FORWARD(cudaStreamQuery, (cudaStream_t stream), (stream))
TESSERA_FORWARD(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                (stream, event, flags))
TESSERA_FORWARD(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags))
TESSERA_FORWARD(cudaEventDestroy, (cudaEvent_t event), (event))
TESSERA_FORWARD(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))
TESSERA_FORWARD(cudaEventQuery, (cudaEvent_t event), (event))
TESSERA_FORWARD(cudaEventSynchronize, (cudaEvent_t event), (event))
TESSERA_FORWARD(cudaEventElapsedTime, (float* milliseconds, cudaEvent_t from, cudaEvent_t to),
                (milliseconds, from, to))

// Graphs.
TESSERA_FORWARD(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode), (stream, mode))
TESSERA_FORWARD(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t* graph), (stream, graph))
TESSERA_FORWARD(cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus* status),
                (stream, status))
TESSERA_FORWARD(cudaGraphInstantiate, (cudaGraphExec_t * graph, cudaGraph_t from, unsigned long long flags),
                (graph, from, flags))
TESSERA_FORWARD(cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t stream), (graph, stream))
TESSERA_FORWARD(cudaGraphExecUpdate,
                (cudaGraphExec_t graph, cudaGraph_t from, cudaGraphExecUpdateResultInfo* result),
                (graph, from, result))
TESSERA_FORWARD(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count),
                (graph, nodes, count))
TESSERA_FORWARD(cudaGraphDestroy, (cudaGraph_t graph), (graph))
TESSERA_FORWARD(cudaGraphExecDestroy, (cudaGraphExec_t graph), (graph))

}  // extern "C"
