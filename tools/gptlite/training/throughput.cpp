#include "tools/gptlite/training/throughput.h"

namespace tessera::gptlite {

void Throughput::step(double tokens, double seconds, bool is_last) {
  constexpr int64_t warmup_steps = 5;
  const double rate = tokens / seconds;
  smoothed_ = steps_ == 0 ? rate : 0.9 * smoothed_ + 0.1 * rate;
  if (++steps_ <= warmup_steps && !is_last) return;
  tokens_ += tokens;
  seconds_ += seconds;
}

}  // namespace tessera::gptlite
