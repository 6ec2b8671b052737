#pragma once  // not in tessera.h

#include <cstdint>

#include "dist/train/profile/wall_clock.h"
#include "dist/train/trainer/callback.h"

namespace tessera::training {

/// Options of SpeedMonitor.
struct SpeedMonitorOptions {
  int64_t every_steps = 1;               ///< steps between reports; 0: at the end of each epoch
  int64_t tokens_per_sample = 0;         ///< for tokens per second; 0: they are not reported
  SecondsClock clock = profile_seconds;  ///< the source of all times
};

/// Reports the speed of training since the report before:
///
///     second_per_batch     seconds of a micro-batch: loading, forward, backward, update and callbacks
///     samples_per_second   of all ranks together, without padding
///     tokens_per_second    samples times tokens_per_sample
///
/// A batch begins where the one before ended, or its epoch began, so the seconds of an epoch's batches add up
/// to the epoch. The time of validations is in neither.
class SpeedMonitor : public Callback {
 public:
  /// Throws ConfigError for negative numbers, and without a clock.
  explicit SpeedMonitor(SpeedMonitorOptions options = {});

  /// Where the clock is read, and speeds are reported.
  /// @{
  void on_train_epoch_start(Trainer& trainer, Task& task) override;
  void on_train_batch_end(Trainer& trainer, Task& task, const data::Batch& batch, int64_t index) override;
  void on_train_epoch_end(Trainer& trainer, Task& task) override;
  void on_validation_start(Trainer& trainer, Task& task) override;
  void on_validation_end(Trainer& trainer, Task& task) override;
  /// @}
  /// The seconds of the newest batch, and of all batches of the newest epoch so far.
  /// @{
  double second_per_batch() const { return batch_seconds_; }
  double epoch_seconds() const { return epoch_seconds_; }
  /// @}

 private:
  void report(Trainer& trainer);

  SpeedMonitorOptions options_;
  double began_ = 0;       // of the current batch
  double validation_ = 0;  // the begin of the current validation
  double batch_seconds_ = 0, epoch_seconds_ = 0;
  double seconds_ = 0;                 // since the last report
  int64_t batches_ = 0, samples_ = 0;  // the same
};

}  // namespace tessera::training
