// PTX ISA, "Parallel Synchronization and Communication Instructions": bar, barrier, bar.warp.sync,
// barrier.cluster. Waiting is the machine's; here is which barrier, and for whom.
#include <array>

#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim {

namespace {

/// bar.warp.sync membermask.
void decode_warp_barrier(DecodeContext& context) {
  allow_modifiers(context, {"warp", "sync"});
  expect_operands(context, 1);
  Instruction& result = context.result();
  result.flow = Flow::named_lanes;
  result.source[3] = context.source(0, Type::b32);
}

/// barrier.red.op: the operand after the barrier and, where there is one, the count of threads.
void decode_reduction(DecodeContext& context) {
  Instruction& result = context.result();
  const int operands = context.operand_count();
  if (operands != 3 && operands != 4) context.unknown("number of operands");
  result.barrier = context.has("popc")  ? BarrierKind::count
                   : context.has("and") ? BarrierKind::all
                   : context.has("or")  ? BarrierKind::any
                                        : (context.unknown("reduction"), BarrierKind::any);
  result.destination[0] = context.destination(0);
  result.source[0] = context.source(1, Type::u32);
  if (operands == 4) result.source[1] = context.source(2, Type::u32);
  result.source[2] = context.source(operands - 1, Type::pred);
  result.source_negated = context.is_negated(operands - 1);
}

// "bar{.cta}.sync a{, b}", ".arrive a, b", ".red.popc.u32 d, a{, b}, {!}c", ".red.and.pred", ".red.or.pred";
// "barrier{.cta}" is the same, and lets the lanes of a warp arrive apart where it is not .aligned.
void decode_barrier(DecodeContext& context) {
  if (context.has("warp")) return decode_warp_barrier(context);
  allow_modifiers(context, {"cta", "sync", "arrive", "red", "popc", "and", "or", "aligned"});
  Instruction& result = context.result();
  result.flow = Flow::barrier;
  result.flags[0] = context.opcode() == "barrier" && !context.has("aligned") ? 1 : 0;
  if (context.has("red")) return decode_reduction(context);
  const int operands = context.operand_count();
  if (operands != 1 && operands != 2) context.unknown("number of operands");
  if (context.has("arrive")) {
    if (operands != 2) context.unknown("number of operands");
    result.barrier = BarrierKind::arrive;
  }
  result.source[0] = context.source(0, Type::u32);
  if (operands == 2) result.source[1] = context.source(1, Type::u32);
}

constexpr std::array rows = {OpcodeRow{"bar", decode_barrier}, OpcodeRow{"barrier", decode_barrier}};

}  // namespace

std::span<const OpcodeRow> barrier_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
