#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optim/optimizer.h"

namespace tessera::optim {

/// A learning rate as a pure function of the step (from 0), and a position, the current step. Only the
/// position is saved: a run that resumes at step n has the rate of step n.
///
///     Schedule schedule = cosine({.lr = 1e-3, .min_lr = 1e-4, .warmup_steps = 100, .steps = 2000});
///     for (...) { schedule.apply(adam); ...; adam.step(); schedule.advance(); }
///
/// A skipped step (optim/grad_scaler.h) must not advance it.
class Schedule {
 public:
  /// The rate of a step, for parameters whose optimizer was made with the rate `base_lr`.
  using Rate = std::function<double(int64_t step, double base_lr)>;
  /// An option of optimizers that changes with the step, by the name under which it is saved.
  struct Option {
    std::string name;                           ///< "beta1", "momentum", ...
    std::function<double(int64_t step)> value;  ///< of a step
  };

  /// `lr` is the rate of which `rate` returns multiples; 0 where there is none.
  Schedule(std::string name, std::function<double(int64_t step)> rate, double lr = 0.0);
  /// A rate that depends on the group's own. `lr`: for all groups of an optimizer that was made with one
  /// rate; nothing: the rate with which each group was made.
  Schedule(std::string name, Rate rate, std::optional<double> lr)
      : name_(std::move(name)), rate_(std::move(rate)), lr_(lr) {}

  /// "cosine", ...
  const std::string& name() const { return name_; }
  /// The rate of which the steps' rates are multiples: the option `lr` (one_cycle: `max_lr`); 0 where there
  /// is none.
  double lr() const { return lr_.value_or(0.0); }
  /// The rate of `step`. Throws ValueError for a negative one, ConfigError for a schedule without `lr`.
  double at(int64_t step) const;
  /// The rate of `step` for a group that was made with the rate `base_lr`. Throws ValueError for a negative
  /// step, ConfigError for a schedule whose rate is no multiple of another.
  double at(int64_t step, double base_lr) const;

  /// Options that `apply` sets with the rate in an optimizer that has all of them; others keep theirs.
  void set_options(std::vector<Option> options) { options_ = std::move(options); }
  /// The values of these options at `step`, in order. Throws ValueError for a negative step.
  std::vector<NamedOption> options_at(int64_t step) const;

  /// Writes the rate of the position into every group's `lr`: at(position()) where the schedule has an `lr`
  /// and all groups were made with the same rate, else at(position(), base_lr(group)), so that groups with
  /// different rates keep their proportions. Throws ConfigError for such groups where the schedule's rate is
  /// no multiple of another, and as `Optimizer::set_option`.
  void apply(Optimizer& optimizer) const;
  /// Writes the rate of the position into one group's `lr`: at(position()), or without an `lr` that for the
  /// rate with which the group was made.
  void apply(Optimizer& optimizer, int group) const;
  /// To call after a step that updated the parameters.
  void advance() { ++position_; }
  /// An error that says what to write.
  void step() const = delete;  // optim::LRScheduler scheduler(optimizer, schedule); scheduler.step();
  /// The current step, from 0.
  int64_t position() const { return position_; }
  /// Throws ValueError for a negative one.
  void set_position(int64_t step);

 private:
  void apply_options(Optimizer& optimizer, int group) const;

  std::string name_;
  Rate rate_;
  std::optional<double> lr_;
  std::vector<Option> options_;
  int64_t position_ = 0;
};

/// lr times any function of the step, PyTorch's LambdaLR; `name` identifies it in logs. Without `lr` the
/// rates with which the groups were made; a group of its own has `schedule.apply(optimizer, group)`. Throws
/// ConfigError for options out of range.
/// @{
Schedule lambda(double lr, std::function<double(int64_t step)> factor, std::string name = "lambda");
Schedule lambda(std::function<double(int64_t step)> factor, std::string name = "lambda");
/// @}

}  // namespace tessera::optim
