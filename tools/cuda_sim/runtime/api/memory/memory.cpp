// Device memory: allocated, freed, asked about.
#include <cuda_runtime_api.h>

#include "tools/cuda_sim/checks/shadow.h"
#include "tools/cuda_sim/runtime/memory/allocation.h"
#include "tools/cuda_sim/runtime/state/call.h"

using namespace tessera::cuda_sim;

namespace {

constexpr size_t pitch_multiple = 512;

size_t pitch_of(size_t width) {
  return (width + pitch_multiple - 1) / pitch_multiple * pitch_multiple;
}

cudaError_t allocate(const char* name, void** pointer, size_t bytes) {
  return api_call(name, CallKind::unsafe_in_capture, [&](Call& call) {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    *pointer = nullptr;
    if (bytes == 0) return cudaSuccess;
    return allocate_device(call, call.device(), bytes, name, pointer);
  });
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return allocate("cudaMalloc", pointer, bytes);
}

cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  if (pitch == nullptr) return api_call("cudaMallocPitch", [](Call&) { return cudaErrorInvalidValue; });
  *pitch = pitch_of(width);
  return allocate("cudaMallocPitch", pointer, *pitch * height);
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* pointer, cudaExtent extent) {
  if (pointer == nullptr) return api_call("cudaMalloc3D", [](Call&) { return cudaErrorInvalidValue; });
  pointer->pitch = pitch_of(extent.width);
  pointer->xsize = extent.width;
  pointer->ysize = extent.height;
  return allocate("cudaMalloc3D", &pointer->ptr, pointer->pitch * extent.height * extent.depth);
}

cudaError_t cudaMallocManaged(void** pointer, size_t, unsigned) {
  return api_call("cudaMallocManaged", [&](Call&) {
    if (pointer != nullptr) *pointer = nullptr;
    return cudaErrorNotSupported;
  });
}

cudaError_t cudaFree(void* pointer) {
  return api_call("cudaFree", CallKind::unsafe_in_capture, [&](Call& call) {
    if (pointer == nullptr) return cudaSuccess;
    DeviceState* owner = call.runtime.owner(reinterpret_cast<uint64_t>(pointer));
    if (owner == nullptr) {
      call.report(Check::bounds, "the pointer is no address of a device");
      return cudaErrorInvalidValue;
    }
    if (const cudaError_t error = check_freeable(call, *owner, pointer)) return error;
    // The card waits for all work of the device before the memory goes ("Implicit synchronization").
    const cudaError_t error = call.runtime.wait_for_device(call.lock, *owner);
    release_device(call.runtime, *owner, reinterpret_cast<uint64_t>(pointer), 0);
    return error;
  });
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  return api_call("cudaMemGetInfo", [&](Call& call) {
    if (free_bytes == nullptr || total == nullptr) return cudaErrorInvalidValue;
    const DeviceMemory& memory = call.device().device.memory();
    *total = memory.capacity();
    *free_bytes = memory.capacity() - memory.used();
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return api_call("cudaPointerGetAttributes", [&](Call& call) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    *attributes = {};
    auto* writable = const_cast<void*>(pointer);
    const auto address = reinterpret_cast<uint64_t>(pointer);
    if (const DeviceState* owner = call.runtime.owner(address);
        owner != nullptr && const_cast<DeviceState*>(owner)->device.memory().live_range(address).end != 0) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->device = owner->index();
      attributes->devicePointer = writable;
    } else if (call.runtime.host_memory.find(address) != nullptr) {
      attributes->type = cudaMemoryTypeHost;
      attributes->device = call.thread.device;
      attributes->hostPointer = writable;
    } else {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = -2;
      attributes->hostPointer = writable;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  return api_call("cudaGetSymbolAddress", [&](Call& call) {
    const auto variable = call.runtime.kernels.variable(call.device(), symbol);
    if (!variable || pointer == nullptr) return cudaErrorInvalidSymbol;
    *pointer = reinterpret_cast<void*>(variable->address);
    return cudaSuccess;
  });
}

cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  return api_call("cudaGetSymbolSize", [&](Call& call) {
    const auto variable = call.runtime.kernels.variable(call.device(), symbol);
    if (!variable || bytes == nullptr) return cudaErrorInvalidSymbol;
    *bytes = variable->bytes;
    return cudaSuccess;
  });
}

}  // extern "C"
