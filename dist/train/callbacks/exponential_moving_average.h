#pragma once  // not in tessera.h

#include <cstdint>
#include <memory>
#include <optional>

#include "dist/train/trainer/callback.h"
#include "nn/average.h"

namespace tessera::training {

/// Options of the callback ExponentialMovingAverage.
struct ExponentialMovingAverageOptions {
  double decay = 0.999;       ///< of the average in an update; the new values have the weight 1 - decay
  int64_t every_steps = 1;    ///< steps of the optimizer between updates
  int64_t first_step = 1;     ///< the first step of which the weights are taken
  bool in_validation = true;  ///< whether validations of the fit compute with the averages
  bool at_end = true;         ///< whether the module has the averages after the fit
};

/// Keeps the exponential moving average of the weights (nn::ExponentialMovingAverage) over a fit; of shards
/// each rank averages its own. Validations compute with the averages, and so does the module after the fit.
/// Checkpoints keep the averages as the group "average", from which a resumed run continues with the same
/// bits; the weights that they keep are the trained ones. A step that loss scaling skips is not taken.
class ExponentialMovingAverage : public Callback {
 public:
  /// Throws ConfigError for a decay outside [0, 1] and for steps below 1.
  explicit ExponentialMovingAverage(ExponentialMovingAverageOptions options = {});
  ~ExponentialMovingAverage() override;

  /// Where averages are made, updated, swapped in and out; a validation that a signal ends has no
  /// on_validation_end.
  /// @{
  void on_fit_start(Trainer& trainer, Task& task) override;
  void on_train_batch_end(Trainer& trainer, Task& task, const data::Batch& batch, int64_t index) override;
  void on_validation_start(Trainer& trainer, Task& task) override;
  void on_validation_end(Trainer& trainer, Task& task) override;
  void on_train_epoch_end(Trainer& trainer, Task& task) override;
  void on_train_end(Trainer& trainer, Task& task) override;
  void on_fit_end(Trainer& trainer, Task& task) override;
  void on_exception(Trainer& trainer, Task& task, const std::exception& error) override;
  /// @}
  /// The group "average". Throws ConfigError while the module has the averages: a checkpoint would have them
  /// as its weights.
  std::vector<dist::GroupShard> state_tensors(Trainer& trainer, Task& task) override;

  /// The averages of the newest fit, while its module lives. Throws ConfigError before a fit.
  nn::ExponentialMovingAverage& average();

 private:
  void begin(Task& task);

  ExponentialMovingAverageOptions options_;
  std::unique_ptr<nn::ExponentialMovingAverage> average_;
  std::optional<nn::ExponentialMovingAverage::Swapped> swapped_;  // while a validation runs
  bool is_current_ = false;                                       // `average_` is of the fit that runs
  int64_t taken_step_ = 0, skipped_steps_ = 0;
};

}  // namespace tessera::training
