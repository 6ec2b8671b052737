#pragma once

#include <cstdint>

#include "optim/optimizer.h"

namespace tessera::optim {

/// Options of ReduceLROnPlateau, with PyTorch's names and defaults.
struct ReduceLROnPlateauOptions {
  /// Whether a smaller or a larger value of the metric is better.
  enum class Mode { min, max };
  /// Whether `threshold` is a fraction of the best value, or a difference from it.
  enum class ThresholdMode { rel, abs };

  Mode mode = Mode::min;    ///< of a loss min, of an accuracy max
  double factor = 0.1;      ///< of each reduction
  int64_t patience = 10;    ///< values without improvement that do not reduce the rate
  double threshold = 1e-4;  ///< an improvement is larger than it
  ThresholdMode threshold_mode = ThresholdMode::rel;  ///< what `threshold` is relative to
  int64_t cooldown = 0;  ///< values after a reduction that do not count as lacking improvement
  double min_lr = 0.0;   ///< no group's rate is reduced below it
  double eps = 1e-8;     ///< a reduction by less is not made
};

/// What ReduceLROnPlateau carries from value to value.
struct ReduceLROnPlateauState {
  double best;               ///< the best value so far; infinite before the first
  int64_t num_bad_epochs;    ///< values since it
  int64_t cooldown_counter;  ///< values left of the cooldown
};

/// Reduces every group's learning rate by a factor when a metric no longer improves, as PyTorch's class does.
/// It depends on the metric, so it is no Schedule. The rates themselves are saved with the optimizer.
///
///     ReduceLROnPlateau plateau(adam, {.patience = 5});
///     for (...) { ...; plateau.step(validation_loss); }
class ReduceLROnPlateau {
 public:
  using Options = ReduceLROnPlateauOptions;      ///< see there
  using Mode = Options::Mode;                    ///< see there
  using ThresholdMode = Options::ThresholdMode;  ///< see there

  /// `optimizer` must outlive it. Throws ConfigError for options out of range.
  explicit ReduceLROnPlateau(Optimizer& optimizer, const Options& options = {});

  /// Takes a value of the metric, the same on all ranks. A NaN is no improvement.
  void step(double metric);

  /// To save; `load_state` continues from it.
  const ReduceLROnPlateauState& state() const { return state_; }
  /// Throws CheckpointError for negative counts.
  void load_state(const ReduceLROnPlateauState& state);

 private:
  bool is_better(double metric) const;
  void reduce();

  Optimizer& optimizer_;
  Options options_;
  ReduceLROnPlateauState state_;
};

}  // namespace tessera::optim
