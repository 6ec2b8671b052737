// One device as the runtime sees it.
#pragma once

#include <driver_types.h>

#include <map>
#include <set>

#include "tools/cuda_sim/machine/device.h"
#include "tools/cuda_sim/runtime/configuration/architecture.h"
#include "tools/cuda_sim/runtime/state/memory_pool.h"
#include "tools/cuda_sim/runtime/state/stream.h"

namespace tessera::cuda_sim {

struct DeviceState {
  DeviceState(int index, const Settings& settings, Findings& findings, OperationLog& log)
      : device(index, settings, findings, log), architecture(find_architecture(settings.compute_capability)) {
    legacy.device = this;
    legacy.kind = Stream::Kind::legacy;
    legacy.chain = log.new_chain("the default stream of device " + std::to_string(index));
    default_pool.device = index;
    default_pool.is_default = true;
  }

  int index() const { return device.index(); }

  Device device;
  const Architecture* architecture;
  /// What ended a kernel: every call returns it from then on.
  cudaError_t sticky = cudaSuccess;
  Stream legacy;
  MemoryPool default_pool;
  MemoryPool* pool = &default_pool;
  std::map<uint64_t, MemoryPool*> pool_of;  ///< of blocks of cudaMallocAsync
  std::set<int> peers;                      ///< devices that it may access
  unsigned flags = 0;
  std::map<int, size_t> limits;
};

}  // namespace tessera::cuda_sim
