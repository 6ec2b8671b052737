#pragma once  // not in tessera.h

#include <memory>
#include <optional>
#include <ostream>

#include "dist/train/profile/flops_profiler.h"
#include "dist/train/trainer/callback.h"

namespace tessera::training {

/// Options of FlopsPrinter.
struct FlopsPrinterOptions {
  FlopsProfilerOptions profile = {.enabled = true};  ///< the step to profile, and the form of the report
  double machine_flops = 0;  ///< to compare with, as `measured_product_rate(f32)` gives it; 0: none
};

/// Profiles one step of the training on rank 0: FLOPs and time by module (profile/README.md). The report is
/// printed, and goes to the monitors as the text "flops_profile". A validation between two micro-batches of
/// the step counts in it.
class FlopsPrinter : public Callback {
 public:
  /// `out` must outlive the callback. Throws ConfigError for options out of range.
  explicit FlopsPrinter(std::ostream& out, FlopsPrinterOptions options = {});

  /// Where recording begins and ends, with the micro-batches of the chosen step.
  /// @{
  void on_train_start(Trainer& trainer, Task& task) override;
  void on_train_batch_start(Trainer& trainer, Task& task, const data::Batch& batch, int64_t index) override;
  void on_train_batch_end(Trainer& trainer, Task& task, const data::Batch& batch, int64_t index) override;
  void on_train_end(Trainer& trainer, Task& task) override;
  void on_exception(Trainer& trainer, Task& task, const std::exception& error) override;
  /// @}
  /// Of the chosen step, on rank 0; nothing before its end.
  const std::optional<FlopsProfile>& profile() const { return profile_; }

 private:
  std::ostream& out_;
  FlopsPrinterOptions options_;
  std::unique_ptr<FlopsProfiler> profiler_;  // of the fit that runs, until the chosen step is done
  bool in_step_ = false;
  int64_t samples_ = 0;  // of the step on this rank
  std::optional<FlopsProfile> profile_;
};

}  // namespace tessera::training
