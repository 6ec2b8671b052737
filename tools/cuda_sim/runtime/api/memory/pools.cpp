// Stream-ordered memory: cudaMallocAsync and pools.
#include <cuda_runtime_api.h>

#include "tools/cuda_sim/checks/shadow.h"
#include "tools/cuda_sim/runtime/memory/allocation.h"
#include "tools/cuda_sim/runtime/state/call.h"

using namespace tessera::cuda_sim;

namespace {

MemoryPool* find_pool(Call& call, cudaMemPool_t handle) {
  if (MemoryPool* pool = call.runtime.pools.find(handle)) return pool;
  for (int i = 0; i < call.runtime.device_count(); ++i)
    if (DeviceState* device = call.runtime.opened(i); device != nullptr)
      if (reinterpret_cast<MemoryPool*>(handle) == &device->default_pool) return &device->default_pool;
  return nullptr;
}

cudaMemPool_t handle_of(MemoryPool* pool) {
  return reinterpret_cast<cudaMemPool_t>(pool);
}

cudaError_t allocate(const char* name, void** pointer, size_t bytes, cudaMemPool_t handle,
                     cudaStream_t stream_handle) {
  return api_call(name, [&](Call& call) {
    Stream* stream = call.stream(stream_handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (pointer == nullptr) return cudaErrorInvalidValue;
    *pointer = nullptr;
    if (const cudaError_t error = check_stream_for_work(call, *stream)) return error;
    if (stream->capture != nullptr) {
      stream->capture->is_invalid = true;
      call.report(Check::capture, "memory nodes of graphs are not simulated; the capture is lost");
      return cudaErrorNotSupported;
    }
    MemoryPool* pool = handle == nullptr ? stream->device->pool : find_pool(call, handle);
    if (pool == nullptr) return cudaErrorInvalidValue;
    if (bytes == 0) return cudaSuccess;
    if (pool->max_bytes != 0 && pool->used + bytes > pool->max_bytes) return cudaErrorMemoryAllocation;
    DeviceState& device = call.runtime.device(pool->device);
    if (const cudaError_t error = allocate_device(call, device, bytes, name, pointer)) return error;
    pool->take(bytes);
    device.pool_of[reinterpret_cast<uint64_t>(*pointer)] = pool;
    return cudaSuccess;
  });
}

/// Runs `body(Call&, MemoryPool&)` for a pool that exists.
template <class Body>
cudaError_t with_pool(const char* name, cudaMemPool_t handle, Body body) {
  return api_call(name, [&](Call& call) {
    MemoryPool* pool = find_pool(call, handle);
    return pool == nullptr ? cudaErrorInvalidValue : body(call, *pool);
  });
}

bool is_device(const Call& call, int index) {
  return index >= 0 && index < call.runtime.device_count();
}

}  // namespace

extern "C" {

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return allocate("cudaMallocAsync", pointer, bytes, nullptr, stream);
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  if (pool == nullptr)
    return api_call("cudaMallocFromPoolAsync", [](Call&) { return cudaErrorInvalidValue; });
  return allocate("cudaMallocFromPoolAsync", pointer, bytes, pool, stream);
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream_handle) {
  return api_call("cudaFreeAsync", [&](Call& call) {
    Stream* stream = call.stream(stream_handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (pointer == nullptr) return cudaSuccess;
    if (const cudaError_t error = check_stream_for_work(call, *stream)) return error;
    if (stream->capture != nullptr) {
      stream->capture->is_invalid = true;
      call.report(Check::capture, "memory nodes of graphs are not simulated; the capture is lost");
      return cudaErrorNotSupported;
    }
    const auto address = reinterpret_cast<uint64_t>(pointer);
    DeviceState* owner = call.runtime.owner(address);
    if (owner == nullptr) {
      call.report(Check::bounds, "the pointer is no address of a device");
      return cudaErrorInvalidValue;
    }
    if (const cudaError_t error = check_freeable(call, *owner, pointer)) return error;
    Runtime& runtime = call.runtime;
    const DeviceMemory::Range range = owner->device.memory().live_range(address);
    runtime.issue(call.lock, *stream,
                  {.name = "cudaFreeAsync of " + std::to_string(range.end - range.begin) + " bytes",
                   .run = [&runtime, owner, address](Operation operation) {
                     DeviceMemory& memory = owner->device.memory();
                     const DeviceMemory::Range live = memory.live_range(address);
                     if (live.end == 0 || live.begin != address) {
                       runtime.findings.add(Check::use_after_free,
                                            runtime.log.describe(operation) + ": it is free already", Site{});
                       return true;
                     }
                     // Every other use must have ended: to the checks it is a write of all bytes.
                     owner->device.shadow().access_range(operation, address, live.end - live.begin, true,
                                                         "cudaFreeAsync");
                     release_device(runtime, *owner, address, operation);
                     return true;
                   }});
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return api_call("cudaDeviceGetDefaultMemPool", [&](Call& call) {
    if (!is_device(call, device)) return cudaErrorInvalidDevice;
    if (pool == nullptr) return cudaErrorInvalidValue;
    *pool = handle_of(&call.runtime.device(device).default_pool);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return api_call("cudaDeviceGetMemPool", [&](Call& call) {
    if (!is_device(call, device)) return cudaErrorInvalidDevice;
    if (pool == nullptr) return cudaErrorInvalidValue;
    *pool = handle_of(call.runtime.device(device).pool);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t handle) {
  return with_pool("cudaDeviceSetMemPool", handle, [&](Call& call, MemoryPool& pool) {
    if (!is_device(call, device)) return cudaErrorInvalidDevice;
    if (pool.device != device) return cudaErrorInvalidValue;
    call.runtime.device(device).pool = &pool;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* handle, const cudaMemPoolProps* properties) {
  return api_call("cudaMemPoolCreate", [&](Call& call) {
    if (handle == nullptr || properties == nullptr || properties->allocType != cudaMemAllocationTypePinned)
      return cudaErrorInvalidValue;
    if (properties->location.type != cudaMemLocationTypeDevice ||
        properties->handleTypes != cudaMemHandleTypeNone)
      return cudaErrorNotSupported;
    if (!is_device(call, properties->location.id)) return cudaErrorInvalidDevice;
    auto pool = std::make_unique<MemoryPool>();
    pool->device = properties->location.id;
    pool->max_bytes = properties->maxSize;
    *handle = handle_of(call.runtime.pools.add(std::move(pool)));
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  return with_pool("cudaMemPoolDestroy", handle, [&](Call& call, MemoryPool& pool) {
    if (pool.is_default) return cudaErrorInvalidValue;
    DeviceState& device = call.runtime.device(pool.device);
    if (device.pool == &pool) device.pool = &device.default_pool;
    // Blocks that are left over are counted with the default pool.
    for (auto& [address, owner] : device.pool_of)
      if (owner == &pool) {
        const DeviceMemory::Range range = device.device.memory().live_range(address);
        device.default_pool.take(range.end - range.begin);
        owner = &device.default_pool;
      }
    call.runtime.pools.remove(handle);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t keep) {
  return with_pool("cudaMemPoolTrimTo", handle, [&](Call&, MemoryPool& pool) {
    pool.trim(keep);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return with_pool("cudaMemPoolSetAttribute", handle, [&](Call&, MemoryPool& pool) {
    if (value == nullptr) return cudaErrorInvalidValue;
    switch (attribute) {
      case cudaMemPoolReuseFollowEventDependencies:
        pool.reuse_follow_events = *static_cast<int*>(value);
        break;
      case cudaMemPoolReuseAllowOpportunistic:
        pool.reuse_opportunistic = *static_cast<int*>(value);
        break;
      case cudaMemPoolReuseAllowInternalDependencies:
        pool.reuse_internal = *static_cast<int*>(value);
        break;
      case cudaMemPoolAttrReleaseThreshold:
        pool.release_threshold = *static_cast<uint64_t*>(value);
        break;
      case cudaMemPoolAttrReservedMemHigh:
        if (*static_cast<uint64_t*>(value) != 0) return cudaErrorInvalidValue;
        pool.reserved_high = pool.reserved;
        break;
      case cudaMemPoolAttrUsedMemHigh:
        if (*static_cast<uint64_t*>(value) != 0) return cudaErrorInvalidValue;
        pool.used_high = pool.used;
        break;
      default:
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return with_pool("cudaMemPoolGetAttribute", handle, [&](Call&, MemoryPool& pool) {
    if (value == nullptr) return cudaErrorInvalidValue;
    auto& bytes = *static_cast<uint64_t*>(value);
    auto& number = *static_cast<int*>(value);
    switch (attribute) {
      case cudaMemPoolReuseFollowEventDependencies:
        number = pool.reuse_follow_events;
        break;
      case cudaMemPoolReuseAllowOpportunistic:
        number = pool.reuse_opportunistic;
        break;
      case cudaMemPoolReuseAllowInternalDependencies:
        number = pool.reuse_internal;
        break;
      case cudaMemPoolAttrReleaseThreshold:
        bytes = pool.release_threshold;
        break;
      case cudaMemPoolAttrReservedMemCurrent:
        bytes = pool.reserved;
        break;
      case cudaMemPoolAttrReservedMemHigh:
        bytes = pool.reserved_high;
        break;
      case cudaMemPoolAttrUsedMemCurrent:
        bytes = pool.used;
        break;
      case cudaMemPoolAttrUsedMemHigh:
        bytes = pool.used_high;
        break;
      default:
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t handle, const cudaMemAccessDesc* list, size_t count) {
  return with_pool("cudaMemPoolSetAccess", handle, [&](Call& call, MemoryPool& pool) {
    if (count != 0 && list == nullptr) return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      if (list[i].location.type != cudaMemLocationTypeDevice) return cudaErrorInvalidValue;
      if (!is_device(call, list[i].location.id)) return cudaErrorInvalidDevice;
      if (list[i].location.id == pool.device && list[i].flags != cudaMemAccessFlagsProtReadWrite)
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

}  // extern "C"
