#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "optim/optimizer.h"

namespace tessera::optim {

/// A number for all groups of an optimizer, or one for each: `.min_lr = 1e-4`, `.min_lr = {1e-4, 1e-5}`.
class GroupValues {
 public:
  /// The same for all groups.
  GroupValues(double value) : values_{value}, per_group_(false) {}
  /// One for each group, in order.
  /// @{
  GroupValues(std::initializer_list<double> values) : values_(values), per_group_(true) {}
  GroupValues(std::vector<double> values) : values_(std::move(values)), per_group_(true) {}
  /// @}

  /// Whether it fits an optimizer with so many groups.
  bool fits(int groups) const { return !per_group_ || std::ssize(values_) == groups; }
  /// The value of a group of such an optimizer.
  double of(int group) const { return values_[per_group_ ? static_cast<size_t>(group) : 0]; }
  /// The number, or one for each group.
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
  bool per_group_;
};

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
  int64_t cooldown = 0;      ///< values after a reduction that do not count as lacking improvement
  GroupValues min_lr = 0.0;  ///< no group's rate is reduced below it, or below its own
  double eps = 1e-8;         ///< a reduction by less is not made
};

/// What ReduceLROnPlateau carries from value to value.
struct ReduceLROnPlateauState {
  double best;               ///< the best value so far; infinite before the first
  int64_t num_bad_epochs;    ///< values since it
  int64_t cooldown_counter;  ///< values left of the cooldown
  std::vector<double> lr;    ///< the rate of each group
};

/// Reduces every group's learning rate by a factor when a metric no longer improves, as PyTorch's class does.
/// It depends on the metric, so it is no Schedule.
///
///     ReduceLROnPlateau plateau(adam, {.patience = 5});
///     for (...) { ...; plateau.step(validation_loss); }
class ReduceLROnPlateau {
 public:
  using Options = ReduceLROnPlateauOptions;      ///< see there
  using Mode = Options::Mode;                    ///< see there
  using ThresholdMode = Options::ThresholdMode;  ///< see there

  /// `optimizer` must outlive it. Throws ConfigError for options out of range, and for a list of `min_lr`
  /// that has not one for each group.
  explicit ReduceLROnPlateau(Optimizer& optimizer, const Options& options = {});

  /// Takes a value of the metric, the same on all ranks. A NaN is no improvement. Throws ConfigError where a
  /// group was added that a list of `min_lr` lacks.
  void step(double metric);

  /// To save; `load_state` continues from it to the bit.
  ReduceLROnPlateauState state() const;
  /// Also sets the rates of the optimizer. Throws CheckpointError for negative counts, and unless there is a
  /// rate of at least 0 for each group; then it loads nothing.
  void load_state(const ReduceLROnPlateauState& state);

 private:
  bool is_better(double metric) const;
  void require_fit() const;
  void reduce();

  Optimizer& optimizer_;
  Options options_;
  double best_;
  int64_t num_bad_epochs_ = 0, cooldown_counter_ = 0;
};

}  // namespace tessera::optim
