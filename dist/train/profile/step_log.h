#pragma once  // not in tessera.h

#include <optional>
#include <string>

#include "dist/train/log/logger.h"
#include "dist/train/profile/wall_clock.h"
#include "tensor/memory/account.h"

/// The lines that a training loop prints every so many steps. Nothing is printed here.
namespace tessera::training {

/// Options of StepLog; the first two are DeepSpeed's keys.
struct StepLogOptions {
  int64_t steps_per_print = 10;          ///< steps of an interval, which ends with a block of lines
  bool wall_clock_breakdown = false;     ///< whether a block has the times of the parts of a step
  SecondsClock clock = profile_seconds;  ///< the source of all times
  /// The account to read; null: `current_account()` of the thread that makes the StepLog.
  intrusive_ptr<MemoryAccount> account = nullptr;
  Logger log = {};  ///< gets the block of each interval too, as "train.step"
};

/// The measurements of one interval.
struct IntervalMetrics {
  int64_t step = 0;               ///< the last step of the interval, counted from 1
  int64_t samples = 0;            ///< in the interval
  double seconds = 0;             ///< from the interval's begin to its end
  double samples_per_second = 0;  ///< their quotient; 0 where no time passed
  double average_bytes = 0;       ///< allocated at the end of a step, the mean over the interval
  int64_t maximum_bytes = 0;      ///< the most that were allocated, since the account's last reset_peaks
  StepTimes times = {};           ///< means over the interval
};

/// Speed and memory of steps, by intervals of `steps_per_print` of them:
///
///     training::StepLog log({.steps_per_print = 10, .wall_clock_breakdown = true});
///     for (...) {
///       { const auto timing = log.clock().measure(training::StepPart::forward); ... }
///       if (const auto block = log.end_step(batch_size)) std::cout << *block;
///     }
class StepLog {
 public:
  /// Begins the first interval. Throws ConfigError for fewer than one step per print.
  explicit StepLog(StepLogOptions options = {});

  /// The stopwatches of the parts of a step.
  WallClock& clock() { return clock_; }
  /// Ends a step of `samples` samples, of all ranks together. At the end of an interval returns its block:
  ///
  ///     step=10, AvgSamplesPerSec=80.00, AvgMemAllocated=0.250GB, MaxMemAllocated=0.500GB
  ///     time (ms) | data: 0.50 | fwd: 12.00 | bwd: 24.00 | comm: 0.00 | step: 3.00 | iter: 40.00
  ///
  /// the second line with `wall_clock_breakdown` alone, GB of 2^30 bytes. Throws ValueError for a negative
  /// number of samples, and while a part is measured.
  std::optional<std::string> end_step(int64_t samples);
  /// Of the last interval that ended; nothing before.
  const std::optional<IntervalMetrics>& metrics() const { return metrics_; }

 private:
  StepLogOptions o_;
  WallClock clock_;
  int64_t samples_ = 0;
  double bytes_ = 0;
  std::optional<IntervalMetrics> metrics_;
};

/// The lines of a training loop, without a line break.
/// @{
/// "[2/3; 40] loss: 0.69315": epochs from 1. A negative number of epochs, of a run without such a limit, is
/// "?".
std::string loss_line(int64_t epoch, int64_t epochs, int64_t step, double loss);
/// "[2/3; 40] valid loss: 0.69315".
std::string valid_loss_line(int64_t epoch, int64_t epochs, int64_t step, double loss);
/// "Finished training after 12.5 seconds."
std::string finished_line(double seconds);
/// "Final test loss: 0.69315"
std::string test_loss_line(double loss);
/// "Epoch: 2, Loss: 0.693147", which rank 0 prints.
std::string epoch_line(int64_t epoch, double loss);
/// @}

}  // namespace tessera::training
