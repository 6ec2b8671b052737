#pragma once

#include <span>
#include <string>

#include "tensor/profile/profiler.h"

namespace tessera::tools {

/// A timeline (SVG) of the one step in a rank's rows of a trace. Time is to the right, the step's phases are
/// on top. Each unit has a line with its collectives above its kernels; the last line shows waits. A kernel
/// belongs to the unit with the longest name that is a prefix of its module's name, else to the first of
/// `units`. Throws ValueError where the rank has no step.
std::string step_timeline(const Profiler& profiler, int rank, std::span<const std::string> units,
                          const std::string& title);

}  // namespace tessera::tools
