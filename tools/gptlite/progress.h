#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

namespace tessera::gptlite {

/// The progress of a run: a bar that is redrawn on a terminal, elsewhere about 20 lines a run.
class Progress {
 public:
  Progress(std::ostream& out, bool is_terminal, int64_t first_step, int64_t steps);

  /// A step has ended. `tokens_per_second` is smoothed by the caller; nothing: it is not shown.
  void step(int64_t done, double loss, double learning_rate, std::optional<double> tokens_per_second);
  /// A line of its own; the bar is drawn again below it.
  void line(const std::string& text);
  /// Ends the bar's line; the bar stays visible.
  void finish();

 private:
  void draw(const std::string& text);

  std::ostream& out_;
  bool is_terminal_;
  int64_t first_, steps_;
  int64_t next_line_;
  size_t drawn_ = 0;
  double last_draw_ = 0;
};

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
