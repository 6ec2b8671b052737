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

/// What `--profile-steps A:B` means in a run of steps done + 1 .. steps; without it ten steps after the first
/// few, or all where there are fewer. Throws ConfigError for another form, for A > B, and for steps that this
/// run does not take.
StepRange profiled_steps(const TrainFlags& flags, int64_t done, int64_t steps);

/// `--profile`: records some of a run's steps, writes their trace and prints their table. Does nothing
/// without the flag.
class StepProfile {
 public:
  /// Records nothing where `path` is empty: without the flag, and where another rank records for this one.
  /// Throws ConfigError as `profiled_steps`, also for `--profile-steps` alone, and when the trace's file
  /// cannot be opened; it is emptied.
  StepProfile(const TrainFlags& flags, const std::string& path, int64_t done, int64_t steps);

  bool is_wanted() const { return file_.is_open(); }
  /// To be called around every step, numbered from 1.
  void before_step(int64_t step);
  void after_step(int64_t step);
  /// No more steps come: what runs from here on is not recorded.
  void stop() { recording_.reset(); }
  /// At the end of the run: writes the trace of the steps that were run. Throws ConfigError naming the file.
  void finish(std::ostream& out);

 private:
  std::string path_;
  std::ofstream file_;
  StepRange range_;
  Profiler profiler_;
  std::optional<ProfilerScope> recording_;
};

}  // namespace tessera::gptlite
