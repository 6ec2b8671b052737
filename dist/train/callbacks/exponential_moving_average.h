#pragma once  // not in tessera.h

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dist/train/trainer/callback.h"
#include "nn/average.h"

namespace tessera::training {

class EngineCore;

/// Options of the callback ExponentialMovingAverage.
struct ExponentialMovingAverageOptions {
  double decay = 0.999;       ///< of the average in an update; the new values have the weight 1 - decay
  int64_t every_steps = 1;    ///< steps of the optimizer between updates
  int64_t first_step = 1;     ///< the first step of the optimizer of which the weights are taken
  bool in_validation = true;  ///< whether validations of the fit compute with the averages
  bool at_end = true;         ///< whether the module has the averages after the fit
};

/// Keeps the exponential moving average of the weights (nn::ExponentialMovingAverage) over a fit; of shards
/// each rank averages its own. Validations compute with the averages, and so does the module after the fit.
/// Checkpoints keep the averages as the group "average", from which a resumed run continues with the same
/// bits; the weights that they keep are the trained ones. A step that loss scaling skips is not taken. In
/// manual optimization each part has an average of its own, which counts the steps of the part's optimizer,
/// in checkpoints as the group "average.PART"; what is in no part is not averaged.
class ExponentialMovingAverage : public Callback {
 public:
  /// Throws ConfigError for a decay outside [0, 1] and for steps below 1.
  explicit ExponentialMovingAverage(ExponentialMovingAverageOptions options = {});
  ~ExponentialMovingAverage() override;

  /// Where averages are made, updated, swapped in and out; a validation that a signal ends has no
  /// on_validation_end.
  /// @{
  void on_fit_start(Trainer& trainer, Task& task) override;
  void on_before_zero_grad(Trainer& trainer, Task& task, optim::Optimizer& optimizer) override;
  void on_validation_start(Trainer& trainer, Task& task) override;
  void on_validation_end(Trainer& trainer, Task& task) override;
  void on_train_epoch_end(Trainer& trainer, Task& task) override;
  void on_train_end(Trainer& trainer, Task& task) override;
  void on_fit_end(Trainer& trainer, Task& task) override;
  void on_exception(Trainer& trainer, Task& task, const std::exception& error) override;
  /// @}
  /// The groups of the averages. Throws ConfigError while the module has the averages: a checkpoint would
  /// have them as its weights.
  std::vector<dist::GroupShard> state_tensors(Trainer& trainer, Task& task) override;

  /// The averages of the newest fit, while its module lives: of all the model, or of a part in manual
  /// optimization. Throws ConfigError before a fit, and where the fit had no such part; without a name, where
  /// it had several.
  /// @{
  nn::ExponentialMovingAverage& average();
  nn::ExponentialMovingAverage& average(const std::string& part);
  /// @}

 private:
  struct Average {
    std::string part;    // "" in automatic optimization
    EngineCore* engine;  // while the fit runs
    std::unique_ptr<nn::ExponentialMovingAverage> average;
    std::unique_ptr<nn::ExponentialMovingAverage::Swapped> swapped;  // while a validation runs
    int64_t skipped_steps;                                           // of the engine
  };
  void begin(Trainer& trainer, Task& task);
  void add(const std::string& part, EngineCore& engine);
  void end_swap();

  ExponentialMovingAverageOptions options_;
  std::vector<Average> averages_;
  bool is_current_ = false;  // `averages_` are of the fit that runs
};

}  // namespace tessera::training
