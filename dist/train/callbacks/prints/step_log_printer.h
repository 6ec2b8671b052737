#pragma once  // not in tessera.h

#include <optional>
#include <ostream>

#include "dist/train/profile/step_log.h"
#include "dist/train/trainer/callback.h"

namespace tessera::training {

/// Prints StepLog's block of lines every `steps_per_print` steps of the optimizer, on rank 0: samples a
/// second of all ranks together, memory, and with `wall_clock_breakdown` the times of the parts of a step.
/// A callback's time counts in the part in which it is called. Validations count in no interval.
class StepLogPrinter : public Callback {
 public:
  /// `out` must outlive the callback. Throws ConfigError for fewer than one step per print, and without a
  /// clock.
  explicit StepLogPrinter(std::ostream& out, StepLogOptions options = {});

  /// Where times are taken, and blocks printed.
  /// @{
  void on_train_start(Trainer& trainer, Task& task) override;
  void on_train_batch_start(Trainer& trainer, Task& task, const data::Batch& batch, int64_t index) override;
  void on_before_backward(Trainer& trainer, Task& task, const Variable& loss) override;
  void on_after_backward(Trainer& trainer, Task& task) override;
  void on_before_optimizer_step(Trainer& trainer, Task& task) override;
  void on_train_batch_end(Trainer& trainer, Task& task, const data::Batch& batch, int64_t index) override;
  void on_validation_start(Trainer& trainer, Task& task) override;
  void on_validation_end(Trainer& trainer, Task& task) override;
  /// @}
  /// Of the newest interval that ended; nothing before.
  const std::optional<IntervalMetrics>& metrics() const { return metrics_; }

 private:
  void change(std::optional<StepPart> to);

  std::ostream& out_;
  StepLogOptions options_;
  std::optional<StepLog> log_;    // of the fit that runs
  std::optional<StepPart> part_;  // measured now
  double validation_ = 0;         // the begin of the current one
  double validations_ = 0;        // seconds of all: the log's clock stands still in them
  int64_t samples_ = 0;           // of the step so far
  std::optional<IntervalMetrics> metrics_;
};

}  // namespace tessera::training
