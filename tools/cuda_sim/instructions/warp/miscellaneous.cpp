// PTX ISA, "Miscellaneous Instructions" and "Parallel Synchronization": trap, brkpt, pmevent, nanosleep,
// griddepcontrol, setmaxnreg; instructions that say nothing to a simulation.
#include <array>

#include "tools/cuda_sim/checks/site.h"
#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"
#include "tools/cuda_sim/machine/block.h"
#include "tools/cuda_sim/machine/device.h"

namespace tessera::cuda_sim {

namespace {

/// cudaErrorLaunchFailure.
constexpr int launch_failure = 719;

void execute_trap(Warp& warp, const Instruction& instruction) {
  const Site site = site_of(warp, instruction, std::countr_zero(warp.active()));
  throw KernelFault(launch_failure, "trap in " + site.kernel + ", block " + std::to_string(site.block) +
                                        ", thread " + std::to_string(site.thread));
}

// "trap": the kernel ends with an error. "brkpt" without a debugger does the same.
void decode_trap(DecodeContext& context) {
  allow_modifiers(context, {});
  context.result().execute = execute_trap;
}

/// Hints, and what orders kernels that overlap: none here do.
void decode_nothing(DecodeContext& context) {
  context.result().flow = Flow::nothing;
}

constexpr std::array rows = {
    OpcodeRow{"trap", decode_trap},         OpcodeRow{"brkpt", decode_trap},
    OpcodeRow{"pmevent", decode_nothing},   OpcodeRow{"griddepcontrol", decode_nothing},
    OpcodeRow{"nanosleep", decode_nothing}, OpcodeRow{"setmaxnreg", decode_nothing},
};

}  // namespace

std::span<const OpcodeRow> miscellaneous_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
