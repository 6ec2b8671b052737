// PTX ISA, "Parallel Synchronization and Communication Instructions": membar, fence.
#include <array>
#include <atomic>

#include "tools/cuda_sim/checks/shadow.h"
#include "tools/cuda_sim/instructions/memory/access.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"
#include "tools/cuda_sim/machine/block.h"
#include "tools/cuda_sim/machine/device.h"

namespace tessera::cuda_sim {

namespace {

void execute_fence(Warp& warp, const Instruction& instruction) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  warp.block().device().shadow().fence(warp, instruction, instruction.scope);
}

// "membar": .cta, .gl, .sys.
void decode_membar(DecodeContext& context) {
  allow_memory_modifiers(context, {"gl"});
  Instruction& result = context.result();
  decode_order(context, Order::acquire_release);
  result.execute = execute_fence;
}

// "fence": {.sc, .acq_rel, .acquire, .release}.scope. Fences of proxies order the tensor memory accelerator
// and textures, and clusters' barriers: nothing here.
void decode_fence(DecodeContext& context) {
  if (context.has("proxy") || context.has("mbarrier_init")) {
    allow_memory_modifiers(context, {"proxy", "async", "alias", "mbarrier_init", "async::generic",
                                     "sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
    context.result().flow = Flow::nothing;
    return;
  }
  allow_memory_modifiers(context, {});
  decode_order(context, Order::acquire_release);
  context.result().execute = execute_fence;
}

constexpr std::array rows = {OpcodeRow{"membar", decode_membar}, OpcodeRow{"fence", decode_fence}};

}  // namespace

std::span<const OpcodeRow> fence_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
