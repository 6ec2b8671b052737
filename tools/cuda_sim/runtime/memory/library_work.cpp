#include "tools/cuda_sim/runtime/memory/library_work.h"

#include "tools/cuda_sim/checks/shadow.h"

namespace tessera::cuda_sim {

bool access_device(Runtime& runtime, Operation operation, uint64_t address, uint64_t bytes, bool writes,
                   const char* what) {
  if (bytes == 0) return true;
  DeviceState* owner = runtime.owner(address);
  if (owner == nullptr) {
    runtime.findings.add(Check::bounds, runtime.log.describe(operation) + ": an address of the host", Site{});
    return false;
  }
  const DeviceMemory::Range range = owner->device.memory().live_range(address);
  if (range.end == 0 || address + bytes > range.end) {
    runtime.findings.add(range.end == 0 ? Check::use_after_free : Check::bounds,
                         runtime.log.describe(operation) + ": its memory is no part of a live allocation",
                         Site{});
    return false;
  }
  owner->device.shadow().access_range(operation, address, bytes, writes, what);
  return true;
}

void run_library(Runtime& runtime, const LibraryParameters& library, Operation operation) {
  bool is_valid = true;
  // Reads first: what an operation reads and writes itself is no race with itself.
  for (const bool writes : {false, true})
    for (const LibraryParameters::Range& range : library.ranges)
      if (range.writes == writes)
        is_valid &=
            access_device(runtime, operation, range.address, range.bytes, writes, library.name.c_str());
  if (!is_valid) throw KernelFault(cudaErrorIllegalAddress, "memory that it may not use");
  library.run(library.data.get());
}

}  // namespace tessera::cuda_sim
