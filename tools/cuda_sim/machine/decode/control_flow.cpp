#include "tools/cuda_sim/machine/decode/control_flow.h"

#include "tools/cuda_sim/machine/calls/device_calls.h"
#include "tools/cuda_sim/machine/decode/special_registers.h"

namespace tessera::cuda_sim {

namespace {

uint32_t label_index(const StatementContext& context, const std::string& name) {
  const int64_t index = context.step().scope->find_label(name);
  if (index < 0) context.unknown("label " + name + " is not there");
  return static_cast<uint32_t>(index);
}

// Control Flow Instructions: bra
void decode_branch(StatementContext& context) {
  context.result().flow = Flow::branch;
  context.result().target = label_index(context, context.operand(0).name);
}

// Control Flow Instructions: brx.idx
void decode_branch_table(StatementContext& context) {
  if (!context.has("idx")) context.unknown("only brx.idx is known");
  Instruction& result = context.result();
  const ptx::BranchTargets* table = context.step().scope->find_table(context.operand(1).name);
  if (table == nullptr) context.unknown("the .branchtargets are not there");
  std::vector<uint32_t> targets;
  for (const std::string& label : table->labels) targets.push_back(label_index(context, label));
  auto& tables = context.state().program->branch_tables;
  result.flow = Flow::branch_table;
  result.source[0] = context.source(0, Type::u32);
  result.immediate = static_cast<int64_t>(tables.size());
  tables.push_back(std::move(targets));
}

// Control Flow Instructions: ret. Behind an expanded function comes its caller's next instruction.
void decode_return(StatementContext& context) {
  const Frame& frame = *context.step().frame;
  context.result().flow = frame.is_kernel ? Flow::exit : Flow::branch;
  context.result().target = frame.end;
}

// Parallel Synchronization and Communication Instructions: bar.warp.sync
void decode_warp_barrier(StatementContext& context) {
  context.result().flow = Flow::named_lanes;
  context.result().source[3] = context.source(0, Type::u32);
}

BarrierKind reduction_kind(const StatementContext& context) {
  if (context.has("popc")) return BarrierKind::count;
  if (context.has("and")) return BarrierKind::all;
  if (!context.has("or")) context.unknown("the reduction is not known");
  return BarrierKind::any;
}

// Parallel Synchronization and Communication Instructions: bar, barrier
void decode_barrier(StatementContext& context) {
  if (context.has("warp")) return decode_warp_barrier(context);
  if (context.has("cluster")) context.unknown("barriers of clusters are not known");
  Instruction& result = context.result();
  result.flow = Flow::barrier;
  result.flags[0] = context.opcode() == "barrier" && !context.has("aligned") ? 1 : 0;
  const bool reduces = context.has("red");
  int at = 0;
  if (reduces) {
    result.barrier = reduction_kind(context);
    result.destination[0] = context.destination(at++);
  } else {
    if (!context.has("sync") && !context.has("arrive")) context.unknown("neither sync, arrive nor red");
    result.barrier = context.has("arrive") ? BarrierKind::arrive : BarrierKind::sync;
  }
  result.source[0] = context.source(at++, Type::u32);
  const int last = context.operand_count() - (reduces ? 1 : 0);
  if (at < last) result.source[1] = context.source(at++, Type::u32);
  if (result.barrier == BarrierKind::arrive && result.source[1].is_absent())
    context.unknown("bar.arrive needs a count of threads");
  if (reduces) {
    result.source_negated = context.is_negated(at);
    result.source[2] = context.source(at, Type::pred);
  }
}

// Control Flow Instructions: call, of a function that the device has itself
void decode_device_call(StatementContext& context) {
  const CallOperands call = call_operands(context.statement(), context.state().program->name);
  Instruction& result = context.result();
  result.execute = find_device_call(call.function);
  if (call.arguments.size() > result.source.size()) context.unknown("too many arguments");
  for (size_t i = 0; i < call.arguments.size(); ++i)
    result.source[i] = context.state().constants.broadcast(context.local_offset(call.arguments[i]), 4);
  result.immediate = call.results.empty() ? -1 : context.local_offset(call.results[0]);
}

bool decode_clock(StatementContext& context) {
  if (context.operand_count() != 2 || context.operand(1).kind != ptx::Operand::Kind::name) return false;
  const std::string& name = context.operand(1).name;
  if (name[0] != '%') return false;
  const Execute execute = clock_register(name, type_bytes(context.type(0)));
  if (execute == nullptr) return false;
  context.result().execute = execute;
  context.result().destination[0] = context.destination(0);
  return true;
}

}  // namespace

bool decode_control_flow(StatementContext& context) {
  const std::string& opcode = context.opcode();
  Instruction& result = context.result();
  if (const Frame* skipped = context.step().skips) {
    result.flow = Flow::branch;
    result.target = skipped->end;
    result.guard_negated = !result.guard_negated;
  } else if (opcode == "bra") {
    decode_branch(context);
  } else if (opcode == "brx") {
    decode_branch_table(context);
  } else if (opcode == "ret") {
    decode_return(context);
  } else if (opcode == "exit") {
    result.flow = Flow::exit;
  } else if (opcode == "bar" || opcode == "barrier") {
    decode_barrier(context);
  } else if (opcode == "call") {
    decode_device_call(context);
  } else {
    return opcode == "mov" && decode_clock(context);
  }
  return true;
}

}  // namespace tessera::cuda_sim
