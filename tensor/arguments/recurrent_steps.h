#pragma once  // internal

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensor/arguments/recurrence.h"

namespace tessera {

/// One step of a recurrence, in the order of computation.
struct RecurrentStep {
  int64_t row, rows;  // its first row, and how many
  int64_t previous;   // the first row of the step computed before
  int64_t continued;  // rows that continue that step; the others begin with the initial state
};

/// The steps in the order of computation. Without `reverse` sequences end, with it they begin on the way.
inline std::vector<RecurrentStep> steps_of(const RecurrentOptions& options) {
  const std::vector<int64_t>& sizes = options.batch_sizes;
  std::vector<RecurrentStep> steps;
  int64_t row = 0;
  for (const int64_t size : sizes) {
    steps.push_back({row, size, 0, 0});
    row += size;
  }
  if (options.reverse) std::reverse(steps.begin(), steps.end());
  for (size_t s = 1; s < steps.size(); ++s) {
    steps[s].previous = steps[s - 1].row;
    steps[s].continued = std::min(steps[s].rows, steps[s - 1].rows);
  }
  return steps;
}

}  // namespace tessera
