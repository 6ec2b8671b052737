#include "tools/gptlite/training/speed.h"

namespace tessera::gptlite {

void Speed::step(double tokens, double seconds, bool is_last) {
  constexpr int64_t warmup_steps = 5;
  const double speed = tokens / seconds;
  smoothed_ = steps_ == 0 ? speed : 0.9 * smoothed_ + 0.1 * speed;
  if (++steps_ <= warmup_steps && !is_last) return;
  tokens_ += tokens;
  seconds_ += seconds;
}

}  // namespace tessera::gptlite
