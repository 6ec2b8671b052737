// Programs compiled with -default-stream per-thread call names of their own: stream 0 is the thread's.
#include <cuda_runtime_api.h>

#include "tools/cuda_sim/runtime/api/memory/copies.h"
#include "tools/cuda_sim/runtime/api/memory/fills.h"

using namespace tessera::cuda_sim;

namespace {

cudaStream_t per_thread(cudaStream_t stream) {
  return stream == nullptr ? cudaStreamPerThread : stream;
}

}  // namespace

// NAME_ptsz with the stream last.
#define TESSERA_STREAM_LAST(name, parameters, ...) \
  cudaError_t name##_ptsz parameters {             \
    return name(__VA_ARGS__);                      \
  }

extern "C" {

TESSERA_STREAM_LAST(cudaStreamSynchronize, (cudaStream_t s), per_thread(s))
TESSERA_STREAM_LAST(cudaStreamQuery, (cudaStream_t s), per_thread(s))
TESSERA_STREAM_LAST(cudaEventRecord, (cudaEvent_t e, cudaStream_t s), e, per_thread(s))
TESSERA_STREAM_LAST(cudaEventRecordWithFlags, (cudaEvent_t e, cudaStream_t s, unsigned f), e, per_thread(s),
                    f)
TESSERA_STREAM_LAST(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned f), per_thread(s), e, f)
TESSERA_STREAM_LAST(cudaLaunchHostFunc, (cudaStream_t s, cudaHostFn_t f, void* d), per_thread(s), f, d)
TESSERA_STREAM_LAST(cudaStreamAddCallback, (cudaStream_t s, cudaStreamCallback_t c, void* d, unsigned f),
                    per_thread(s), c, d, f)
TESSERA_STREAM_LAST(cudaStreamGetFlags, (cudaStream_t s, unsigned* f), per_thread(s), f)
TESSERA_STREAM_LAST(cudaStreamGetPriority, (cudaStream_t s, int* p), per_thread(s), p)
TESSERA_STREAM_LAST(cudaStreamGetId, (cudaStream_t s, unsigned long long* i), per_thread(s), i)
TESSERA_STREAM_LAST(cudaStreamGetDevice, (cudaStream_t s, int* d), per_thread(s), d)
TESSERA_STREAM_LAST(cudaStreamIsCapturing, (cudaStream_t s, cudaStreamCaptureStatus* c), per_thread(s), c)
TESSERA_STREAM_LAST(cudaStreamBeginCapture, (cudaStream_t s, cudaStreamCaptureMode m), per_thread(s), m)
TESSERA_STREAM_LAST(cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t* g), per_thread(s), g)
TESSERA_STREAM_LAST(cudaStreamGetCaptureInfo,
                    (cudaStream_t s, cudaStreamCaptureStatus* c, unsigned long long* i, cudaGraph_t* g,
                     const cudaGraphNode_t** n, const cudaGraphEdgeData** e, size_t* k),
                    per_thread(s), c, i, g, n, e, k)
TESSERA_STREAM_LAST(cudaStreamUpdateCaptureDependencies,
                    (cudaStream_t s, cudaGraphNode_t* n, const cudaGraphEdgeData* e, size_t k, unsigned f),
                    per_thread(s), n, e, k, f)
TESSERA_STREAM_LAST(cudaGraphLaunch, (cudaGraphExec_t g, cudaStream_t s), g, per_thread(s))
TESSERA_STREAM_LAST(cudaGraphUpload, (cudaGraphExec_t g, cudaStream_t s), g, per_thread(s))
TESSERA_STREAM_LAST(cudaGraphInstantiateWithParams,
                    (cudaGraphExec_t * e, cudaGraph_t g, cudaGraphInstantiateParams* p), e, g, p)
TESSERA_STREAM_LAST(cudaLaunchKernel, (const void* f, dim3 g, dim3 b, void** a, size_t n, cudaStream_t s), f,
                    g, b, a, n, per_thread(s))
TESSERA_STREAM_LAST(cudaLaunchCooperativeKernel,
                    (const void* f, dim3 g, dim3 b, void** a, size_t n, cudaStream_t s), f, g, b, a, n,
                    per_thread(s))
TESSERA_STREAM_LAST(cudaMallocAsync, (void** p, size_t n, cudaStream_t s), p, n, per_thread(s))
TESSERA_STREAM_LAST(cudaFreeAsync, (void* p, cudaStream_t s), p, per_thread(s))
TESSERA_STREAM_LAST(cudaMallocFromPoolAsync, (void** p, size_t n, cudaMemPool_t m, cudaStream_t s), p, n, m,
                    per_thread(s))
TESSERA_STREAM_LAST(cudaMemcpyAsync, (void* t, const void* f, size_t n, cudaMemcpyKind k, cudaStream_t s), t,
                    f, n, k, per_thread(s))
TESSERA_STREAM_LAST(cudaMemcpy2DAsync,
                    (void* t, size_t tp, const void* f, size_t fp, size_t w, size_t h, cudaMemcpyKind k,
                     cudaStream_t s),
                    t, tp, f, fp, w, h, k, per_thread(s))
TESSERA_STREAM_LAST(cudaMemcpy3DAsync, (const cudaMemcpy3DParms* p, cudaStream_t s), p, per_thread(s))
TESSERA_STREAM_LAST(cudaMemcpyToSymbolAsync,
                    (const void* y, const void* f, size_t n, size_t o, cudaMemcpyKind k, cudaStream_t s), y,
                    f, n, o, k, per_thread(s))
TESSERA_STREAM_LAST(cudaMemcpyFromSymbolAsync,
                    (void* t, const void* y, size_t n, size_t o, cudaMemcpyKind k, cudaStream_t s), t, y, n,
                    o, k, per_thread(s))
TESSERA_STREAM_LAST(cudaMemsetAsync, (void* t, int v, size_t n, cudaStream_t s), t, v, n, per_thread(s))
TESSERA_STREAM_LAST(cudaMemset2DAsync, (void* t, size_t p, int v, size_t w, size_t h, cudaStream_t s), t, p,
                    v, w, h, per_thread(s))
TESSERA_STREAM_LAST(cudaMemset3DAsync, (cudaPitchedPtr t, int v, cudaExtent e, cudaStream_t s), t, v, e,
                    per_thread(s))
TESSERA_STREAM_LAST(cudaGetDriverEntryPointByVersion,
                    (const char* y, void** p, unsigned v, unsigned long long f,
                     cudaDriverEntryPointQueryResult* r),
                    y, p, v, f, r)

cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function, unsigned long long flags,
                                         cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, result);
}

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* function,
                                     void** arguments) {
  if (config == nullptr) return cudaLaunchKernelExC(config, function, arguments);
  cudaLaunchConfig_t mine = *config;
  mine.stream = per_thread(mine.stream);
  return cudaLaunchKernelExC(&mine, function, arguments);
}

cudaError_t cudaMemcpy_ptds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy("cudaMemcpy", bytes_copy(to, from, bytes, kind), cudaStreamPerThread, false);
}

cudaError_t cudaMemcpy2D_ptds(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind) {
  return copy("cudaMemcpy2D", rows_copy(to, to_pitch, from, from_pitch, width, height, kind),
              cudaStreamPerThread, false);
}

cudaError_t cudaMemcpy3D_ptds(const cudaMemcpy3DParms* parameters) {
  return copy_blocks("cudaMemcpy3D", parameters, cudaStreamPerThread, false);
}

cudaError_t cudaMemcpyToSymbol_ptds(const void* symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind) {
  return copy_symbol("cudaMemcpyToSymbol", symbol, const_cast<void*>(from), bytes, offset, kind, true,
                     cudaStreamPerThread, false);
}

cudaError_t cudaMemcpyFromSymbol_ptds(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind) {
  return copy_symbol("cudaMemcpyFromSymbol", symbol, to, bytes, offset, kind, false, cudaStreamPerThread,
                     false);
}

cudaError_t cudaMemset_ptds(void* to, int value, size_t bytes) {
  return fill("cudaMemset", bytes_fill(to, value, bytes), cudaStreamPerThread, false);
}

cudaError_t cudaMemset2D_ptds(void* to, size_t pitch, int value, size_t width, size_t height) {
  return fill("cudaMemset2D", rows_fill(to, pitch, value, width, height), cudaStreamPerThread, false);
}

cudaError_t cudaMemset3D_ptds(cudaPitchedPtr to, int value, cudaExtent extent) {
  return fill("cudaMemset3D", block_fill(to, value, extent), cudaStreamPerThread, false);
}

}  // extern "C"
