#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

namespace tessera::gptlite {

/// What a run prints while it goes: a bar that is drawn over on a terminal, a line now and then elsewhere.
class Progress {
 public:
  Progress(std::ostream& out, bool is_terminal, int64_t first_step, int64_t steps);

  /// A step has ended. `tokens_per_second` is smoothed by the caller.
  void step(int64_t done, double loss, double learning_rate, double tokens_per_second);
  /// A line of its own, the bar being drawn again below it.
  void line(const std::string& text);
  /// The bar is left as it stands.
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

/// Seconds on a clock that only goes forward.
double seconds_now();

}  // namespace tessera::gptlite
