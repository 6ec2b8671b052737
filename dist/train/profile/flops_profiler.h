#pragma once  // not in tessera.h

#include <memory>
#include <optional>
#include <string>

#include "dist/train/profile/flops_report.h"

namespace tessera::training {

/// The fields of DeepSpeed's section "flops_profiler", with its defaults.
struct FlopsProfilerOptions {
  bool enabled = false;          ///< whether a step is profiled at all
  int64_t profile_step = 1;      ///< the step to profile, counted from 0; later ones are warm
  int module_depth = -1;         ///< as in ReportOptions
  int top_modules = 1;           ///< as in ReportOptions
  bool detailed = true;          ///< as in ReportOptions
  std::string output_file = {};  ///< where the report is written; empty: nowhere

  /// Throws ConfigError naming the key and the value that is out of range.
  void validate() const;
};

/// Profiles one chosen step of a training loop, and costs nothing in the others:
///
///     training::FlopsProfiler profiler(model, {.enabled = true, .profile_step = 5});
///     for (int64_t step = 0; step < steps; ++step) {
///       profiler.begin_step(step);
///       ...                                  // forward, backward, optimizer
///       profiler.end_step(batch_size);
///     }
///     if (profiler.profile()) std::cout << profiler.report();
class FlopsProfiler {
 public:
  /// `module` must outlive the profiler. `machine_flops` is the rate to compare with, as
  /// `measured_product_rate(f32)` gives it; 0: none. Throws ConfigError as `validate`.
  FlopsProfiler(nn::Module& module, FlopsProfilerOptions options, double machine_flops = 0);
  ~FlopsProfiler();
  FlopsProfiler(const FlopsProfiler&) = delete;
  FlopsProfiler& operator=(const FlopsProfiler&) = delete;

  /// Starts recording when this is the chosen step. Throws ValueError where the step before was not ended,
  /// or another Profiler is open.
  void begin_step(int64_t step);
  /// Ends recording. `samples` are those of the step, for samples a second; 0: not known. Writes the report
  /// to `output_file`. Throws ValueError as `profile_modules`, ConfigError where the file cannot be written.
  void end_step(int64_t samples = 0);

  /// Whether the step between begin_step and end_step is recorded.
  bool is_recording() const { return static_cast<bool>(recording_); }
  /// Of the chosen step; nothing before its end.
  const std::optional<FlopsProfile>& profile() const { return profile_; }
  /// The report of the chosen step. Throws ValueError before its end.
  std::string report() const;

 private:
  struct Recording;
  nn::Module& module_;
  const FlopsProfilerOptions o_;
  const double machine_flops_;
  bool in_step_ = false;
  int64_t step_ = 0;
  std::unique_ptr<Recording> recording_;
  std::optional<FlopsProfile> profile_;
};

}  // namespace tessera::training
