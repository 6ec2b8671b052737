#pragma once

#include <span>
#include <string>

#include "tensor/profile/profiler.h"

namespace tessera::tools {

/// A picture (SVG) of the one step in a rank's rows of a trace: time to the right, the step's phases on top,
/// a line for each unit with its kernels below and its communication above, and a last line with what the
/// rank waited for. A kernel belongs to the unit whose name begins its module's, else to the first of
/// `units`. Throws ValueError where the rank has no step.
std::string step_timeline(const Profiler& profiler, int rank, std::span<const std::string> units,
                          const std::string& title);

}  // namespace tessera::tools
