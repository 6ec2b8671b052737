// From a lane that executes to the place that a finding names.
#pragma once

#include "tools/cuda_sim/checks/findings.h"

namespace tessera::cuda_sim {

class Warp;
struct Instruction;

/// Kernel, source line, block and thread of `lane`.
Site site_of(const Warp& warp, const Instruction& instruction, int lane);

}  // namespace tessera::cuda_sim
