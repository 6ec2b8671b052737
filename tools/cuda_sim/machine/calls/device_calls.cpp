#include "tools/cuda_sim/machine/calls/device_calls.h"

#include <array>
#include <cstring>
#include <string>

#include "tools/cuda_sim/checks/counters.h"
#include "tools/cuda_sim/machine/block.h"
#include "tools/cuda_sim/machine/calls/format.h"
#include "tools/cuda_sim/machine/calls/thread_memory.h"
#include "tools/cuda_sim/machine/device.h"
#include "tools/cuda_sim/machine/faults.h"
#include "tools/cuda_sim/machine/warp.h"

namespace tessera::cuda_sim {

namespace {

/// The arguments and the result of one thread's call.
class CallOfThread {
 public:
  CallOfThread(Warp& warp, const Instruction& instruction, int lane)
      : memory_(warp.local_memory(lane)), warp_(&warp), instruction_(&instruction) {}

  template <class T>
  T argument(size_t i) const {
    T value;
    std::memcpy(&value, memory_ + warp_->values<uint32_t>(instruction_->source[i])[0], sizeof value);
    return value;
  }
  template <class T>
  void set_result(T value) {
    if (instruction_->immediate >= 0) std::memcpy(memory_ + instruction_->immediate, &value, sizeof value);
  }

 private:
  std::byte* memory_;
  Warp* warp_;
  const Instruction* instruction_;
};

// int vprintf(const char* format, void* arguments)
void call_vprintf(Warp& warp, const Instruction& instruction) {
  for_active_lanes(warp, [&](int lane) {
    CallOfThread call(warp, instruction, lane);
    const ThreadMemory memory(warp, instruction, lane);
    const std::string text =
        format(memory, memory.text(call.argument<uint64_t>(0)), call.argument<uint64_t>(1));
    warp.block().device().print(text);
    call.set_result(static_cast<int32_t>(text.size()));
  });
}

// void __assertfail(const char* message, const char* file, unsigned line, const char* function, size_t
// char_bytes)
void call_assertfail(Warp& warp, const Instruction& instruction) {
  const int lane = std::countr_zero(warp.active());
  const CallOfThread call(warp, instruction, lane);
  const ThreadMemory memory(warp, instruction, lane);
  const Dim3 block = warp.block().position();
  const auto position = [](uint32_t x, uint32_t y, uint32_t z) {
    return "[" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + "]";
  };
  const Dim3 shape = warp.block().shape().block;
  const uint32_t thread = warp.number() * warp_lanes + static_cast<uint32_t>(lane);
  std::string text =
      memory.text(call.argument<uint64_t>(1)) + ":" + std::to_string(call.argument<uint32_t>(2)) + ": ";
  text += memory.text(call.argument<uint64_t>(3)) + ": block: " + position(block.x, block.y, block.z);
  text += ", thread: " + position(thread % shape.x, thread / shape.x % shape.y, thread / shape.x / shape.y);
  text += " Assertion `" + memory.text(call.argument<uint64_t>(0)) + "` failed.";
  throw KernelFault(assertion_failed, text);
}

// void* malloc(size_t bytes)
void call_malloc(Warp& warp, const Instruction& instruction) {
  for_active_lanes(warp, [&](int lane) {
    CallOfThread call(warp, instruction, lane);
    call.set_result(
        warp.block().device().memory().allocate(call.argument<uint64_t>(0), "malloc of a kernel"));
  });
}

// void free(void* address)
void call_free(Warp& warp, const Instruction& instruction) {
  for_active_lanes(warp, [&](int lane) {
    const auto address = CallOfThread(warp, instruction, lane).argument<uint64_t>(0);
    if (address != 0 && !warp.block().device().memory().release(address, warp.block().operation()))
      throw KernelFault(illegal_address, describe_thread(warp, instruction, lane) +
                                             ": free of an address that malloc did not give");
  });
}

struct Row {
  std::string_view name;
  Execute execute;
};

constexpr std::array rows = {
    Row{"vprintf", call_vprintf},
    Row{"__assertfail", call_assertfail},
    Row{"malloc", call_malloc},
    Row{"free", call_free},
};

}  // namespace

Execute find_device_call(std::string_view function) {
  for (const Row& row : rows)
    if (row.name == function) return row.execute;
  return nullptr;
}

}  // namespace tessera::cuda_sim
