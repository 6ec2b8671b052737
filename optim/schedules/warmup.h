#pragma once

#include <cstdint>

namespace tessera::optim {

/// The rate of step `step` of `warmup_steps`, as nanoGPT counts them: lr (step + 1) / (warmup_steps + 1).
inline double warm_up(double lr, int64_t step, int64_t warmup_steps) {
  return lr * static_cast<double>(step + 1) / static_cast<double>(warmup_steps + 1);
}

}  // namespace tessera::optim
