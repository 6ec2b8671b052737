#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

namespace tessera::gptlite {

/// The progress of a run: a bar that is redrawn on a terminal, elsewhere about 20 lines a run.
class Progress {
 public:
  Progress(std::ostream& out, bool is_terminal, int64_t first_step, int64_t steps);

  /// A step has ended. `tokens_per_second` is smoothed by the caller.
  void step(int64_t done, double loss, double learning_rate, double tokens_per_second);
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

/// Seconds of a monotonic clock.
double seconds_now();

}  // namespace tessera::gptlite
