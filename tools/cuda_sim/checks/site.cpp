#include "tools/cuda_sim/checks/site.h"

#include "tools/cuda_sim/machine/block.h"

namespace tessera::cuda_sim {

Site site_of(const Warp& warp, const Instruction& instruction, int lane) {
  const Program& program = warp.program();
  Site site;
  site.kernel = program.readable_name.empty() ? program.name : program.readable_name;
  site.block = warp.block().number();
  site.thread = warp.number() * warp_lanes + static_cast<uint32_t>(lane);
  if (instruction.index < program.lines.size()) {
    const SourceLine& line = program.lines[instruction.index];
    site.instruction = line.text;
    site.line = line.line;
    if (line.line != 0 && line.file < program.files.size()) site.file = program.files[line.file];
  }
  return site;
}

}  // namespace tessera::cuda_sim
