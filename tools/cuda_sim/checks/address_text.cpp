#include "tools/cuda_sim/checks/address_text.h"

namespace tessera::cuda_sim {

std::string hex(uint64_t value) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), digits[value & 15]);
    value >>= 4;
  } while (value != 0);
  return "0x" + text;
}

std::string describe(const Allocation& allocation) {
  return "allocation " + std::to_string(allocation.number) + " (" + allocation.name + ", " +
         std::to_string(allocation.bytes) + " bytes at " + hex(allocation.address) + ")";
}

std::string describe_address(const DeviceMemory& memory, uint64_t address) {
  std::string text = hex(address);
  if (const auto allocation = memory.find(address))
    text += ", offset " + std::to_string(address - allocation->address) + " of " + describe(*allocation);
  return text;
}

std::string describe_access(const Access& access) {
  const char* what = access.is_atomic ? "atomic access of " : access.is_write ? "write of " : "read of ";
  return what + std::to_string(access.bytes) + " bytes";
}

}  // namespace tessera::cuda_sim
