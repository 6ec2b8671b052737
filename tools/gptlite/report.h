#pragma once

#include <cstdint>
#include <optional>

#include "dist/train/callbacks/model_checkpoint.h"
#include "tools/gptlite/commands.h"
#include "tools/gptlite/metrics.h"
#include "tools/gptlite/progress.h"
#include "tools/gptlite/start.h"
#include "tools/gptlite/task.h"

namespace tessera::gptlite {

/// What a run prints, and the lines of its metrics file, on every rank. Throws NonFiniteError, on all ranks,
/// for a loss of a step or of a validation that is not finite.
class Report : public training::Callback {
 public:
  /// `start` and `metrics` must outlive this.
  Report(const Start& start, MetricsFile& metrics, Console console);

  void on_train_start(training::Trainer& trainer, training::Task& task) override;
  void on_before_train_batch(training::Trainer& trainer, training::Task& task) override;
  void on_train_batch_end(training::Trainer& trainer, training::Task& task, const data::Batch& batch,
                          int64_t index) override;
  void on_validation_end(training::Trainer& trainer, training::Task& task) override;
  void on_train_end(training::Trainer& trainer, training::Task& task) override;
  void on_fit_end(training::Trainer& trainer, training::Task& task) override;

 private:
  void print_header(const training::Trainer& trainer, Device device);
  void set_rates(double seconds, double tokens);
  void write_step();
  bool is_last() const { return last_.step == start_.run().preset.steps; }

  const Start& start_;
  MetricsFile& metrics_;
  Console console_;
  Progress progress_;
  Throughput throughput_;
  std::optional<double> began_;         // seconds, of the step that runs
  double learning_rate_ = 0;            // of it
  double loss_scale_ = 1;               // of it
  dist::TrafficCount sent_;             // up to the newest step
  StepMetrics last_;                    // of the newest step; with a validation loss where it was evaluated
  bool is_pending_ = false;             // the newest step has no line yet
  bool has_time_ = true;                // false: the device is simulated
  std::optional<double> product_rate_;  // FLOP/s of all ranks' matrix products; measured for the metrics
};

}  // namespace tessera::gptlite
