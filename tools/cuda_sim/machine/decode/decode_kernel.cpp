#include "tools/cuda_sim/machine/decode/decode_kernel.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "tools/cuda_sim/machine/decode/control_flow.h"
#include "tools/cuda_sim/machine/decode/expansion.h"
#include "tools/cuda_sim/machine/decode/register_places.h"
#include "tools/cuda_sim/machine/decode/special_registers.h"
#include "tools/cuda_sim/machine/decode/statement_context.h"

namespace tessera::cuda_sim {

namespace {

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? readable.get() : name;
}

/// A loop that reads memory with an order may wait there for another thread: the branch that closes it is
/// marked, so that it gives way to the others.
void mark_waiting_loops(Program& program) {
  std::vector<uint32_t> ordered_before(program.code.size() + 1, 0);
  for (size_t i = 0; i < program.code.size(); ++i)
    ordered_before[i + 1] = ordered_before[i] + (program.code[i].order != Order::plain ? 1 : 0);
  for (Instruction& branch : program.code)
    if (branch.flow == Flow::branch && branch.target <= branch.index)
      branch.flags[0] = ordered_before[branch.index] != ordered_before[branch.target] ? 1 : 0;
}

Instruction decode_step(DecodeState& state, const Step& step) {
  StatementContext context(state, step);
  if (!decode_control_flow(context)) {
    const OpcodeRow* row = find_opcode(context.opcode());
    if (row == nullptr) context.unknown("the instruction is not known");
    row->decode(context);
  }
  return context.result();
}

}  // namespace

Program decode_kernel(const ptx::Module& module, const ptx::Function& kernel,
                      const std::map<const ptx::Variable*, uint64_t>& globals) {
  Program program;
  program.name = kernel.name;
  program.readable_name = demangled(kernel.name);
  program.files.resize(module.files.empty() ? 1 : module.files.rbegin()->first + 1);
  for (const auto& [number, name] : module.files) program.files[number] = name;

  const Expansion expansion(module, kernel, globals);
  program.parameters = expansion.parameters();
  program.parameter_bytes = expansion.parameter_bytes();
  program.static_shared_bytes = expansion.static_shared_bytes();
  program.uses_dynamic_shared = expansion.uses_dynamic_shared();
  program.dynamic_shared_offset = expansion.dynamic_shared_offset();
  program.local_bytes = expansion.local_bytes();
  program.required_threads = kernel.required_threads;
  if (kernel.max_threads != 0)
    program.max_threads = std::min<uint32_t>(kernel.max_threads, max_threads_per_block);

  DecodeState state;
  state.program = &program;
  state.register_bytes = special_register_bytes;
  state.dynamic_shared_offset = program.dynamic_shared_offset;
  for (const Step& step : expansion.steps()) {
    Instruction instruction = decode_step(state, step);
    instruction.index = static_cast<uint32_t>(program.code.size());
    program.code.push_back(instruction);
    program.lines.push_back({step.statement->file, step.statement->line, step.statement->text});
  }
  // A kernel may end without `ret`, and its last label stand behind its last instruction.
  Instruction end;
  end.flow = Flow::exit;
  end.index = static_cast<uint32_t>(program.code.size());
  program.code.push_back(end);
  program.lines.push_back({0, 0, "end of the kernel"});
  mark_waiting_loops(program);
  program.constants = state.constants.take();
  program.register_bytes = state.register_bytes;
  share_register_places(program);
  return program;
}

}  // namespace tessera::cuda_sim
