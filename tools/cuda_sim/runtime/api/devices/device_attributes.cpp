#include "tools/cuda_sim/runtime/api/devices/device_attributes.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tools/cuda_sim/machine/types.h"

namespace tessera::cuda_sim {

cudaDeviceProp device_properties(DeviceState& device) {
  const Architecture& architecture = *device.architecture;
  cudaDeviceProp properties{};
  std::snprintf(properties.name, sizeof properties.name, "Tessera simulated card (sm_%d)",
                architecture.capability);
  std::memcpy(properties.uuid.bytes, "tessera-cudasim", 15);
  properties.uuid.bytes[15] = static_cast<char>(device.index());
  properties.totalGlobalMem = device.device.memory().capacity();
  properties.sharedMemPerBlock = shared_per_block_default;
  properties.sharedMemPerBlockOptin = architecture.shared_per_block_opt_in;
  properties.sharedMemPerMultiprocessor = architecture.shared_per_multiprocessor;
  properties.reservedSharedMemPerBlock = shared_reserved_per_block;
  properties.regsPerBlock = registers_per_multiprocessor;
  properties.regsPerMultiprocessor = registers_per_multiprocessor;
  properties.warpSize = warp_lanes;
  properties.memPitch = 0x7fffffff;
  properties.maxThreadsPerBlock = max_threads_per_block;
  const int block[] = {1024, 1024, 64}, grid[] = {0x7fffffff, 65535, 65535};
  std::copy(block, block + 3, properties.maxThreadsDim);
  std::copy(grid, grid + 3, properties.maxGridSize);
  properties.totalConstMem = 64 << 10;
  properties.major = architecture.capability / 10;
  properties.minor = architecture.capability % 10;
  properties.textureAlignment = 512;
  properties.texturePitchAlignment = 32;
  properties.surfaceAlignment = 512;
  properties.multiProcessorCount = device.device.settings().multiprocessors;
  properties.concurrentKernels = 1;
  properties.pciBusID = device.index() + 1;
  properties.asyncEngineCount = 2;
  properties.unifiedAddressing = 1;
  properties.memoryBusWidth = architecture.memory_bus_width;
  properties.l2CacheSize = static_cast<int>(architecture.l2_bytes);
  properties.maxThreadsPerMultiProcessor = architecture.max_threads_per_multiprocessor;
  properties.maxBlocksPerMultiProcessor = architecture.max_blocks_per_multiprocessor;
  properties.streamPrioritiesSupported = 1;
  properties.globalL1CacheSupported = 1;
  properties.localL1CacheSupported = 1;
  properties.hostRegisterSupported = 1;
  properties.hostRegisterReadOnlySupported = 1;
  properties.memoryPoolsSupported = 1;
  return properties;
}

int device_attribute(DeviceState& device, cudaDeviceAttr attribute) {
  const cudaDeviceProp p = device_properties(device);
  constexpr int kilohertz = 1'000'000;  // a number, and no claim: the card has no time
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return p.maxThreadsPerBlock;
    case cudaDevAttrMaxBlockDimX:
      return p.maxThreadsDim[0];
    case cudaDevAttrMaxBlockDimY:
      return p.maxThreadsDim[1];
    case cudaDevAttrMaxBlockDimZ:
      return p.maxThreadsDim[2];
    case cudaDevAttrMaxGridDimX:
      return p.maxGridSize[0];
    case cudaDevAttrMaxGridDimY:
      return p.maxGridSize[1];
    case cudaDevAttrMaxGridDimZ:
      return p.maxGridSize[2];
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(p.sharedMemPerBlock);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(p.sharedMemPerBlockOptin);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(p.sharedMemPerMultiprocessor);
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return static_cast<int>(p.reservedSharedMemPerBlock);
    case cudaDevAttrTotalConstantMemory:
      return static_cast<int>(p.totalConstMem);
    case cudaDevAttrWarpSize:
      return p.warpSize;
    case cudaDevAttrMaxPitch:
      return static_cast<int>(p.memPitch);
    case cudaDevAttrMaxRegistersPerBlock:
      return p.regsPerBlock;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return p.regsPerMultiprocessor;
    case cudaDevAttrClockRate:
      return kilohertz;
    case cudaDevAttrMemoryClockRate:
      return kilohertz;
    case cudaDevAttrTextureAlignment:
      return static_cast<int>(p.textureAlignment);
    case cudaDevAttrTexturePitchAlignment:
      return static_cast<int>(p.texturePitchAlignment);
    case cudaDevAttrSurfaceAlignment:
      return static_cast<int>(p.surfaceAlignment);
    case cudaDevAttrGpuOverlap:
      return 1;
    case cudaDevAttrMultiProcessorCount:
      return p.multiProcessorCount;
    case cudaDevAttrConcurrentKernels:
      return p.concurrentKernels;
    case cudaDevAttrPciBusId:
      return p.pciBusID;
    case cudaDevAttrGlobalMemoryBusWidth:
      return p.memoryBusWidth;
    case cudaDevAttrL2CacheSize:
      return p.l2CacheSize;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return p.maxThreadsPerMultiProcessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return p.maxBlocksPerMultiProcessor;
    case cudaDevAttrAsyncEngineCount:
      return p.asyncEngineCount;
    case cudaDevAttrUnifiedAddressing:
      return p.unifiedAddressing;
    case cudaDevAttrComputeCapabilityMajor:
      return p.major;
    case cudaDevAttrComputeCapabilityMinor:
      return p.minor;
    case cudaDevAttrStreamPrioritiesSupported:
      return p.streamPrioritiesSupported;
    case cudaDevAttrGlobalL1CacheSupported:
      return p.globalL1CacheSupported;
    case cudaDevAttrLocalL1CacheSupported:
      return p.localL1CacheSupported;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio:
      return 2;
    case cudaDevAttrHostRegisterSupported:
      return p.hostRegisterSupported;
    case cudaDevAttrHostRegisterReadOnlySupported:
      return p.hostRegisterReadOnlySupported;
    case cudaDevAttrMemoryPoolsSupported:
      return p.memoryPoolsSupported;
    case cudaDevAttrMemSyncDomainCount:
      return 1;
    default:
      return 0;
  }
}

}  // namespace tessera::cuda_sim
