#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/profile/profiler.h"

namespace tessera {

/// One kernel in one phase, summed over all calls.
struct OpTotal {
  std::string name;         ///< of the kernel
  std::string phase;        ///< empty outside all phases
  int64_t calls = 0;        ///< without those inside another kernel
  int64_t nanoseconds = 0;  ///< from begin to end, in the calling thread
  int64_t bytes = 0;        ///< the least that is moved: each operand once
  int64_t flops = 0;        ///< as tensor/profile/cost.h counts them
};

/// One phase, summed over its spans.
struct PhaseTotal {
  std::string name;         ///< "forward", "backward", ...
  int64_t nanoseconds = 0;  ///< without spans inside another phase
  int64_t in_kernels = 0;   ///< of these
};

/// Where the time of the recorded steps went.
struct OpTable {
  int64_t steps = 0;               ///< recorded from begin to end; 0: the rest is over all that was recorded
  int64_t nanoseconds = 0;         ///< of the steps
  int64_t in_kernels = 0;          ///< of these
  int64_t waiting = 0;             ///< of these, for the slowest thread of a parallel loop
  std::vector<PhaseTotal> phases;  ///< in the order in which they first began
  std::vector<OpTotal> ops;        ///< the longest first

  /// In [0, 1]; 0 when nothing was recorded.
  double share_in_kernels() const;
};

/// Sums the kernels inside steps, in the rows that have steps: a kernel counts in the thread that called it,
/// which waits for its ranges on other threads. Without a recorded step, sums all kernels of all rows. A
/// kernel that another one calls counts as part of that one.
OpTable top_ops(const Profiler& profiler);

/// A table of the `rows` longest ops (name, phase, calls, total ms, share of the step, GFLOP/s, GB/s), the
/// others on one line, the phases, and "inside kernels: 97.1 % of the step; ...".
std::string to_string(const OpTable& table, int rows = 15);

}  // namespace tessera
