// Pinned host memory.
#include <cuda_runtime_api.h>

#include <cstdlib>

#include "tools/cuda_sim/runtime/state/call.h"

using namespace tessera::cuda_sim;

namespace {

constexpr size_t page_bytes = 4096;

cudaError_t allocate(const char* name, void** pointer, size_t bytes, unsigned flags) {
  return api_call(name, CallKind::unsafe_in_capture, [&](Call& call) {
    constexpr unsigned known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    if (pointer == nullptr || (flags & ~known) != 0) return cudaErrorInvalidValue;
    *pointer = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (bytes > ~size_t{0} - page_bytes) return cudaErrorMemoryAllocation;
    *pointer = std::aligned_alloc(page_bytes, (bytes + page_bytes - 1) / page_bytes * page_bytes);
    if (*pointer == nullptr) return cudaErrorMemoryAllocation;
    call.runtime.host_memory.add(reinterpret_cast<uint64_t>(*pointer), bytes, flags, false);
    return cudaSuccess;
  });
}

/// Ends the use of pinned memory: operations that still use it are a finding, and are waited for.
cudaError_t end_use(Call& call, const HostMemory::Block& block) {
  if (const Operation operation = call.runtime.host_memory.in_flight(block); operation != 0)
    call.report(Check::use_after_free, call.runtime.log.describe(operation) + " still uses the memory");
  return call.runtime.wait_for_device(call.lock, call.device());
}

}  // namespace

extern "C" {

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return allocate("cudaMallocHost", pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return allocate("cudaHostAlloc", pointer, bytes, flags);
}

cudaError_t cudaFreeHost(void* pointer) {
  return api_call("cudaFreeHost", CallKind::unsafe_in_capture, [&](Call& call) {
    if (pointer == nullptr) return cudaSuccess;
    const auto address = reinterpret_cast<uint64_t>(pointer);
    const HostMemory::Block* block = call.runtime.host_memory.find(address);
    if (block == nullptr || block->begin != address || block->is_registered) return cudaErrorInvalidValue;
    const cudaError_t error = end_use(call, *block);
    call.runtime.host_memory.remove(address);
    std::free(pointer);
    return error;
  });
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return api_call("cudaHostRegister", CallKind::unsafe_in_capture, [&](Call& call) {
    constexpr unsigned known = cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly;
    if (pointer == nullptr || bytes == 0 || (flags & ~known) != 0) return cudaErrorInvalidValue;
    const auto address = reinterpret_cast<uint64_t>(pointer);
    if (call.runtime.owner(address) != nullptr) return cudaErrorInvalidValue;
    if (call.runtime.host_memory.overlaps(address, bytes)) return cudaErrorHostMemoryAlreadyRegistered;
    call.runtime.host_memory.add(address, bytes, flags, true);
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return api_call("cudaHostUnregister", CallKind::unsafe_in_capture, [&](Call& call) {
    const auto address = reinterpret_cast<uint64_t>(pointer);
    const HostMemory::Block* block = call.runtime.host_memory.find(address);
    if (block == nullptr || !block->is_registered) return cudaErrorHostMemoryNotRegistered;
    if (block->begin != address) return cudaErrorInvalidValue;
    const cudaError_t error = end_use(call, *block);
    call.runtime.host_memory.remove(address);
    return error;
  });
}

/// Kernels have no access to the host's memory here, as devices say by cudaDevAttrCanMapHostMemory.
cudaError_t cudaHostGetDevicePointer(void** pointer, void*, unsigned) {
  return api_call("cudaHostGetDevicePointer", [&](Call&) {
    if (pointer != nullptr) *pointer = nullptr;
    return cudaErrorNotSupported;
  });
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  return api_call("cudaHostGetFlags", [&](Call& call) {
    const HostMemory::Block* block = call.runtime.host_memory.find(reinterpret_cast<uint64_t>(pointer));
    if (flags == nullptr || block == nullptr) return cudaErrorInvalidValue;
    *flags = block->flags;
    return cudaSuccess;
  });
}

}  // extern "C"
