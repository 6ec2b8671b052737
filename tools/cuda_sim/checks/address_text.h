// Addresses in findings.
#pragma once

#include <cstdint>
#include <string>

#include "tools/cuda_sim/machine/access.h"
#include "tools/cuda_sim/memory/device_memory.h"

namespace tessera::cuda_sim {

std::string hex(uint64_t value);
/// "allocation 3 (cudaMalloc, 4000 bytes at 0x...)".
std::string describe(const Allocation& allocation);
/// "0x..., offset 8 of allocation 3 (...)".
std::string describe_address(const DeviceMemory& memory, uint64_t address);
/// "write of 4 bytes".
std::string describe_access(const Access& access);

}  // namespace tessera::cuda_sim
