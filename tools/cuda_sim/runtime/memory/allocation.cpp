#include "tools/cuda_sim/runtime/memory/allocation.h"

#include <string>

#include "tools/cuda_sim/checks/shadow.h"

namespace tessera::cuda_sim {

cudaError_t allocate_device(Call&, DeviceState& device, size_t bytes, const char* name, void** pointer) {
  const uint64_t address = device.device.memory().allocate(bytes, name);
  if (address == 0) return cudaErrorMemoryAllocation;
  device.device.shadow().forget(address, bytes);
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t check_freeable(Call& call, DeviceState& owner, const void* pointer) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  const auto nearest = owner.device.memory().find(address);
  const bool is_inside = nearest && address - nearest->address <= nearest->bytes;
  if (is_inside && !nearest->is_live && address == nearest->address) {
    call.report(Check::use_after_free, "allocation " + std::to_string(nearest->number) + " (" +
                                           nearest->name + ", " + std::to_string(nearest->bytes) +
                                           " bytes) is free already");
    return cudaErrorInvalidValue;
  }
  if (!is_inside || address != nearest->address || call.runtime.kernels.is_variable(owner, address)) {
    call.report(Check::bounds, "the pointer begins no allocation");
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

void release_device(Runtime&, DeviceState& owner, uint64_t address, Operation freed_by) {
  DeviceMemory& memory = owner.device.memory();
  const DeviceMemory::Range range = memory.live_range(address);
  if (const auto it = owner.pool_of.find(address); it != owner.pool_of.end()) {
    it->second->give(range.end - range.begin);
    owner.pool_of.erase(it);
  }
  memory.release(address, freed_by);
  owner.device.shadow().forget(address, range.end - range.begin);
}

}  // namespace tessera::cuda_sim
