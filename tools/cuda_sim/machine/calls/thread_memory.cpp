#include "tools/cuda_sim/machine/calls/thread_memory.h"

#include <cstring>

#include "tools/cuda_sim/machine/access.h"
#include "tools/cuda_sim/machine/block.h"
#include "tools/cuda_sim/machine/device.h"
#include "tools/cuda_sim/machine/faults.h"
#include "tools/cuda_sim/machine/running/warp_runner.h"

namespace tessera::cuda_sim {

std::string describe_thread(const Warp& warp, const Instruction& instruction, int lane) {
  std::string text = describe_place(warp, instruction) + ", block " + std::to_string(warp.block().number());
  return text += ", thread " + std::to_string(warp.number() * warp_lanes + static_cast<uint32_t>(lane));
}

void ThreadMemory::read(uint64_t address, void* to, size_t bytes) const {
  const auto copy = [&](const std::byte* memory, uint64_t offset, uint64_t size) {
    if (memory == nullptr || offset + bytes > size)
      throw KernelFault(illegal_address,
                        describe_thread(*warp_, *call_, lane_) + ": an argument is outside of memory");
    std::memcpy(to, memory + offset, bytes);
  };
  Block& block = warp_->block();
  if (address - local_window < window_bytes) {
    copy(warp_->local_memory(lane_), address - local_window, warp_->program().local_bytes);
  } else if (address - shared_window < window_bytes) {
    copy(block.shared_memory().data(), address - shared_window - shared_begin, block.shared_memory().size());
  } else if (address - parameter_window < window_bytes) {
    copy(block.parameters().data(), address - parameter_window, block.parameters().size());
  } else {
    const DeviceMemory::Range range = block.device().memory().live_range(address);
    copy(range.end == 0 ? nullptr : reinterpret_cast<const std::byte*>(range.begin), address - range.begin,
         range.end - range.begin);
  }
}

std::string ThreadMemory::text(uint64_t address) const {
  std::string text;
  for (char c; (c = value<char>(address)) != 0; ++address) text += c;
  return text;
}

}  // namespace tessera::cuda_sim
