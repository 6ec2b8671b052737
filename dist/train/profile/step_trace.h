#pragma once  // not in tessera.h

#include <cstdint>
#include <fstream>
#include <iosfwd>
#include <optional>
#include <string>

#include "tensor/profile/profiler.h"

namespace tessera::training {

/// Steps first .. last, both included, counted from 1.
struct StepRange {
  int64_t first = 0;  ///< the first one
  int64_t last = 0;   ///< the last one
};

/// The steps "A:B" of a run of steps done + 1 .. steps; for "" ten steps after the first five, or all where
/// there are fewer. Throws ConfigError naming `place` for another form, for A > B, and for steps that this
/// run does not take.
StepRange parse_step_range(const std::string& text, int64_t done, int64_t steps, const std::string& place);

/// Records some of a run's steps and writes their trace in Chrome's format, which ui.perfetto.dev shows, with
/// a row for each thread. Without a file it does nothing.
class StepTrace {
 public:
  /// Records nothing where `path` is "". Empties the trace's file. Throws ConfigError where it cannot be
  /// opened.
  StepTrace(std::string path, StepRange range);

  /// Whether there is a file.
  bool is_wanted() const { return file_.is_open(); }
  /// Called before and after every step; steps count from 1.
  /// @{
  void before_step(int64_t step);
  void after_step(int64_t step);
  /// @}
  /// Whether the first of the steps has begun.
  bool has_recorded() const { return has_recorded_; }
  /// For a run that ended before: the steps and the file without them.
  std::string describe_missing() const;
  /// Ends the recording.
  void stop() { recording_.reset(); }
  /// At the end of the run: writes the trace, and to `table` the operations by their time, or that no
  /// step was recorded. Throws ConfigError
  /// naming the file.
  void finish(std::ostream& table);

 private:
  std::string path_;
  std::ofstream file_;
  StepRange range_;
  Profiler profiler_;
  std::optional<ProfilerScope> recording_;
  bool has_recorded_ = false;
};

}  // namespace tessera::training
