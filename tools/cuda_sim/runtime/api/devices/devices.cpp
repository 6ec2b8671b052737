// Devices: which there are, which one a thread uses, peers, limits.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "tools/cuda_sim/runtime/api/devices/device_attributes.h"
#include "tools/cuda_sim/runtime/state/call.h"

using namespace tessera::cuda_sim;

namespace {

bool exists(const Call& call, int device) {
  return device >= 0 && device < call.runtime.device_count();
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (count != nullptr) *count = 0;
  return api_call("cudaGetDeviceCount", CallKind::needs_no_device, [&](Call& call) {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = call.runtime.device_count();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return api_call("cudaGetDevice", CallKind::needs_no_device, [&](Call& call) {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = call.thread.device;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return api_call("cudaSetDevice", CallKind::needs_no_device, [&](Call& call) {
    if (!exists(call, device)) return cudaErrorInvalidDevice;
    call.thread.device = device;
    return call.device().sticky;
  });
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return api_call("cudaInitDevice", CallKind::needs_no_device, [&](Call& call) {
    if (!exists(call, device)) return cudaErrorInvalidDevice;
    return call.runtime.device(device).sticky;
  });
}

cudaError_t cudaSetValidDevices(int* devices, int count) {
  return api_call("cudaSetValidDevices", CallKind::needs_no_device, [&](Call& call) {
    for (int i = 0; i < count; ++i)
      if (!exists(call, devices[i])) return cudaErrorInvalidDevice;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return api_call("cudaSetDeviceFlags", [&](Call& call) {
    constexpr unsigned known = cudaDeviceMask | cudaDeviceMapHost | cudaDeviceLmemResizeToMax;
    if ((flags & ~known) != 0) return cudaErrorInvalidValue;
    call.device().flags = flags;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  return api_call("cudaGetDeviceFlags", [&](Call& call) {
    if (flags == nullptr) return cudaErrorInvalidValue;
    *flags = call.device().flags;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return api_call("cudaGetDeviceProperties", CallKind::needs_no_device, [&](Call& call) {
    if (properties == nullptr) return cudaErrorInvalidValue;
    if (!exists(call, device)) return cudaErrorInvalidDevice;
    *properties = device_properties(call.runtime.device(device));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return api_call("cudaDeviceGetAttribute", CallKind::needs_no_device, [&](Call& call) {
    if (value == nullptr || attribute < 1 || attribute >= cudaDevAttrMax) return cudaErrorInvalidValue;
    if (!exists(call, device)) return cudaErrorInvalidDevice;
    *value = device_attribute(call.runtime.device(device), attribute);
    return cudaSuccess;
  });
}

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* properties) {
  return api_call("cudaChooseDevice", CallKind::needs_no_device, [&](Call&) {
    if (device == nullptr || properties == nullptr) return cudaErrorInvalidValue;
    *device = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  return api_call("cudaDeviceGetPCIBusId", CallKind::needs_no_device, [&](Call& call) {
    if (text == nullptr || bytes < 13) return cudaErrorInvalidValue;
    if (!exists(call, device)) return cudaErrorInvalidDevice;
    std::snprintf(text, static_cast<size_t>(bytes), "0000:%02x:00.0", static_cast<unsigned>(device) + 1u);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return api_call("cudaDeviceGetByPCIBusId", CallKind::needs_no_device, [&](Call& call) {
    unsigned domain = 0, bus = 0, slot = 0;
    if (device == nullptr || text == nullptr || std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3)
      return cudaErrorInvalidValue;
    if (domain != 0 || slot != 0 || !exists(call, static_cast<int>(bus) - 1)) return cudaErrorInvalidDevice;
    *device = static_cast<int>(bus) - 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceReset() {
  return api_call("cudaDeviceReset", CallKind::needs_no_device, [](Call& call) {
    call.runtime.reset(call.lock, call.device());
    call.thread.last_error = cudaSuccess;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return api_call("cudaDeviceSetLimit", [&](Call& call) {
    if (limit < cudaLimitStackSize || limit > cudaLimitPersistingL2CacheSize)
      return cudaErrorUnsupportedLimit;
    call.device().limits[limit] = value;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  return api_call("cudaDeviceGetLimit", [&](Call& call) {
    if (value == nullptr) return cudaErrorInvalidValue;
    constexpr size_t defaults[] = {1024, 1 << 20, 8 << 20, 2, 2048, 64, 0};
    if (limit < cudaLimitStackSize || limit > cudaLimitPersistingL2CacheSize)
      return cudaErrorUnsupportedLimit;
    const auto it = call.device().limits.find(limit);
    *value = it != call.device().limits.end() ? it->second : defaults[limit];
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) {
  return api_call("cudaDeviceSetCacheConfig", [](Call&) { return cudaSuccess; });
}

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* configuration) {
  return api_call("cudaDeviceGetCacheConfig", [&](Call&) {
    if (configuration == nullptr) return cudaErrorInvalidValue;
    *configuration = cudaFuncCachePreferNone;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return api_call("cudaDeviceCanAccessPeer", CallKind::needs_no_device, [&](Call& call) {
    if (can == nullptr) return cudaErrorInvalidValue;
    if (!exists(call, device) || !exists(call, peer)) return cudaErrorInvalidDevice;
    *can = device != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return api_call("cudaDeviceEnablePeerAccess", [&](Call& call) {
    if (flags != 0) return cudaErrorInvalidValue;
    if (!exists(call, peer) || peer == call.thread.device) return cudaErrorInvalidDevice;
    return call.device().peers.insert(peer).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return api_call("cudaDeviceDisablePeerAccess", [&](Call& call) {
    if (!exists(call, peer)) return cudaErrorInvalidDevice;
    return call.device().peers.erase(peer) != 0 ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int source, int target) {
  return api_call("cudaDeviceGetP2PAttribute", CallKind::needs_no_device, [&](Call& call) {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (!exists(call, source) || !exists(call, target) || source == target) return cudaErrorInvalidDevice;
    *value = attribute == cudaDevP2PAttrAccessSupported ? 1 : 0;
    return cudaSuccess;
  });
}

}  // extern "C"
