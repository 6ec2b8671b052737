// Copies.
#include <cuda_runtime_api.h>

#include "tools/cuda_sim/runtime/api/memory/copies.h"

using namespace tessera::cuda_sim;

namespace tessera::cuda_sim {

cudaError_t copy(const char* name, CopyParameters parameters, cudaStream_t handle, bool is_asynchronous) {
  const CallKind kind = is_asynchronous ? CallKind::usual : CallKind::unsafe_in_capture;
  return api_call(name, kind, [&](Call& call) {
    Stream* stream = call.stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return issue_copy(call, *stream, std::move(parameters), is_asynchronous);
  });
}

CopyParameters bytes_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  CopyParameters copy;
  copy.to = reinterpret_cast<uint64_t>(to);
  copy.from = reinterpret_cast<uint64_t>(from);
  copy.width = bytes;
  copy.kind = kind;
  return copy;
}

CopyParameters rows_copy(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                         size_t height, cudaMemcpyKind kind) {
  CopyParameters copy = bytes_copy(to, from, width, kind);
  copy.to_pitch = to_pitch;
  copy.from_pitch = from_pitch;
  copy.height = height;
  return copy;
}

bool block_copy(const cudaMemcpy3DParms* parameters, CopyParameters& copy) {
  if (parameters == nullptr || parameters->srcArray != nullptr || parameters->dstArray != nullptr)
    return false;
  const auto first = [](const cudaPitchedPtr& pointer, const cudaPos& at) {
    return reinterpret_cast<uint64_t>(pointer.ptr) + (at.z * pointer.ysize + at.y) * pointer.pitch + at.x;
  };
  copy.to = first(parameters->dstPtr, parameters->dstPos);
  copy.to_pitch = parameters->dstPtr.pitch;
  copy.to_slice = parameters->dstPtr.pitch * parameters->dstPtr.ysize;
  copy.from = first(parameters->srcPtr, parameters->srcPos);
  copy.from_pitch = parameters->srcPtr.pitch;
  copy.from_slice = parameters->srcPtr.pitch * parameters->srcPtr.ysize;
  copy.width = parameters->extent.width;
  copy.height = parameters->extent.height;
  copy.depth = parameters->extent.depth;
  copy.kind = parameters->kind;
  return true;
}

cudaError_t copy_blocks(const char* name, const cudaMemcpy3DParms* parameters, cudaStream_t stream,
                        bool is_asynchronous) {
  CopyParameters block;
  if (!block_copy(parameters, block)) return api_call(name, [](Call&) { return cudaErrorInvalidValue; });
  return copy(name, block, stream, is_asynchronous);
}

cudaError_t copy_symbol(const char* name, const void* symbol, void* host, size_t bytes, size_t offset,
                        cudaMemcpyKind kind, bool to_symbol, cudaStream_t handle, bool is_asynchronous) {
  const CallKind call_kind = is_asynchronous ? CallKind::usual : CallKind::unsafe_in_capture;
  return api_call(name, call_kind, [&](Call& call) {
    Stream* stream = call.stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const auto variable = call.runtime.kernels.variable(*stream->device, symbol);
    if (!variable) return cudaErrorInvalidSymbol;
    if (offset + bytes > variable->bytes) return cudaErrorInvalidValue;
    auto* device = reinterpret_cast<void*>(variable->address + offset);
    CopyParameters parameters =
        to_symbol ? bytes_copy(device, host, bytes, kind) : bytes_copy(host, device, bytes, kind);
    return issue_copy(call, *stream, std::move(parameters), is_asynchronous);
  });
}

}  // namespace tessera::cuda_sim

namespace {

cudaError_t copy_peer(const char* name, void* to, int to_device, const void* from, int from_device,
                      size_t bytes, cudaStream_t stream, bool is_asynchronous) {
  const int count = Runtime::instance().device_count();
  if (to_device < 0 || to_device >= count || from_device < 0 || from_device >= count)
    return api_call(name, [](Call&) { return cudaErrorInvalidDevice; });
  return copy(name, bytes_copy(to, from, bytes, cudaMemcpyDeviceToDevice), stream, is_asynchronous);
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy("cudaMemcpy", bytes_copy(to, from, bytes, kind), nullptr, false);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy("cudaMemcpyAsync", bytes_copy(to, from, bytes, kind), stream, true);
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                         size_t height, cudaMemcpyKind kind) {
  return copy("cudaMemcpy2D", rows_copy(to, to_pitch, from, from_pitch, width, height, kind), nullptr, false);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy("cudaMemcpy2DAsync", rows_copy(to, to_pitch, from, from_pitch, width, height, kind), stream,
              true);
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parameters) {
  return copy_blocks("cudaMemcpy3D", parameters, nullptr, false);
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t stream) {
  return copy_blocks("cudaMemcpy3DAsync", parameters, stream, true);
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  return copy_peer("cudaMemcpyPeer", to, to_device, from, from_device, bytes, nullptr, false);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  return copy_peer("cudaMemcpyPeerAsync", to, to_device, from, from_device, bytes, stream, true);
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  return copy_symbol("cudaMemcpyToSymbol", symbol, const_cast<void*>(from), bytes, offset, kind, true,
                     nullptr, false);
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_symbol("cudaMemcpyToSymbolAsync", symbol, const_cast<void*>(from), bytes, offset, kind, true,
                     stream, true);
}

cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  return copy_symbol("cudaMemcpyFromSymbol", symbol, to, bytes, offset, kind, false, nullptr, false);
}

cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_symbol("cudaMemcpyFromSymbolAsync", symbol, to, bytes, offset, kind, false, stream, true);
}

}  // extern "C"
