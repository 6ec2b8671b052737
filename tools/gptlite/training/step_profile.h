#pragma once

#include <cstdint>
#include <fstream>
#include <iosfwd>
#include <optional>

#include "tensor/profile/profiler.h"
#include "tools/gptlite/options.h"

namespace tessera::gptlite {

/// Steps first .. last, both included, counted from 1 as in the metrics.
struct StepRange {
  int64_t first = 0, last = 0;
};

/// The steps of `--profile-steps A:B` in a run of steps done + 1 .. steps; without the flag ten steps after
/// the first five, or all where there are fewer. Throws ConfigError for another form, for A > B, and for
/// steps that this run does not take.
StepRange profiled_steps(const TrainOptions& options, int64_t done, int64_t steps);

/// `--profile`: records some of a run's steps, writes their trace and prints their table. Without the flag it
/// does nothing.
class StepProfile {
 public:
  /// Records nothing where `path` is empty: without the flag, and where another rank records for this one.
  /// Empties the trace's file. Throws ConfigError as `profiled_steps`, also for `--profile-steps` alone, and
  /// where the file cannot be opened.
  StepProfile(const TrainOptions& options, const std::string& path, int64_t done, int64_t steps);

  bool is_wanted() const { return file_.is_open(); }
  /// Called before and after every step; steps count from 1.
  void before_step(int64_t step);
  void after_step(int64_t step);
  /// Ends the recording.
  void stop() { recording_.reset(); }
  /// At the end of the run: writes the trace and prints the table. Throws ConfigError naming the file.
  void finish(std::ostream& out);

 private:
  std::string path_;
  std::ofstream file_;
  StepRange range_;
  Profiler profiler_;
  std::optional<ProfilerScope> recording_;
};

}  // namespace tessera::gptlite
