#pragma once  // not in tessera.h

#include <cstdint>
#include <string>
#include <vector>

#include "dist/train/trainer/callback.h"

namespace tessera::training {

/// Options of LearningRateMonitor.
struct LearningRateMonitorOptions {
  int64_t every_steps = 1;  ///< steps between reports; 0: at the end of each epoch
  std::string name = "lr";  ///< of the value; with several groups NAME/0, NAME/1, ...
};

/// Reports the learning rate of each group of the optimizer: that of the step that just ended.
class LearningRateMonitor : public Callback {
 public:
  /// Throws ConfigError for negative steps and an empty name.
  explicit LearningRateMonitor(LearningRateMonitorOptions options = {});

  /// Where rates are read and reported.
  /// @{
  void on_before_optimizer_step(Trainer& trainer, Task& task) override;
  void on_train_batch_end(Trainer& trainer, Task& task, const data::Batch& batch, int64_t index) override;
  void on_train_epoch_end(Trainer& trainer, Task& task) override;
  /// @}
  /// The rate of each group in the newest step; empty before the first.
  const std::vector<double>& rates() const { return rates_; }

 private:
  void report(Trainer& trainer) const;

  LearningRateMonitorOptions options_;
  std::vector<double> rates_;
};

}  // namespace tessera::training
