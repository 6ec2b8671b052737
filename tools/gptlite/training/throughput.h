#pragma once

#include <cstdint>

namespace tessera::gptlite {

/// Tokens a second of a run's steps: smoothed for display, and the mean over all but a process's first steps,
/// in which caches fill.
class Throughput {
 public:
  /// A step has ended. The last one counts even where it is among the first few.
  void step(double tokens, double seconds, bool is_last);

  double smoothed() const { return smoothed_; }
  /// 0 before the first step that counts.
  double mean() const { return seconds_ > 0 ? tokens_ / seconds_ : 0; }
  /// Seconds of the steps in the mean.
  double seconds() const { return seconds_; }

 private:
  int64_t steps_ = 0;
  double tokens_ = 0, seconds_ = 0;
  double smoothed_ = 0;
};

}  // namespace tessera::gptlite
