#pragma once

#include <cstdint>
#include <functional>
#include <string>

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
  /// `lr` is the rate of which `rate` returns multiples; 0 where there is none.
  Schedule(std::string name, std::function<double(int64_t step)> rate, double lr = 0.0)
      : name_(std::move(name)), rate_(std::move(rate)), lr_(lr) {}

  /// "cosine", ...
  const std::string& name() const { return name_; }
  /// The rate of which the steps' rates are multiples: the option `lr` (one_cycle: `max_lr`).
  double lr() const { return lr_; }
  /// The rate of `step`. Throws ValueError for a negative one.
  double at(int64_t step) const;

  /// Writes the rate of the position into every group's `lr`. Groups that were made with different rates
  /// keep their proportions: each gets its own (`Optimizer::base_lr`) times at(position()) / lr(), so that
  /// `lr` is the rate of one of them, or 1. Throws ConfigError for such groups where lr() is 0.
  void apply(Optimizer& optimizer) const;
  /// Writes the rate of the position into one group's `lr`, unscaled.
  void apply(Optimizer& optimizer, int group) const { optimizer.set_lr(group, at(position_)); }
  /// To call after a step that updated the parameters.
  void advance() { ++position_; }
  /// The current step, from 0.
  int64_t position() const { return position_; }
  /// Throws ValueError for a negative one.
  void set_position(int64_t step);

 private:
  std::string name_;
  std::function<double(int64_t)> rate_;
  double lr_;
  int64_t position_ = 0;
};

/// Options of `cosine`.
struct CosineOptions {
  double lr;                 ///< the maximum, after the warm-up
  double min_lr = 0.0;       ///< at `steps` and after
  int64_t warmup_steps = 0;  ///< step s of them has lr (s + 1) / (warmup_steps + 1)
  int64_t steps;             ///< the step at which the half cosine after the warm-up ends
};
/// nanoGPT's schedule: linear warm-up, half a cosine, then min_lr. Each function here throws ConfigError for
/// options out of range.
Schedule cosine(const CosineOptions& options);

/// Options of `constant`.
struct ConstantOptions {
  double lr;                 ///< after the warm-up
  int64_t warmup_steps = 0;  ///< as in CosineOptions
};
/// Linear warm-up, then the same rate.
Schedule constant(const ConstantOptions& options);

/// Options of `linear`.
struct LinearOptions {
  double lr;                        ///< the rate that the factors multiply
  double start_factor = 1.0 / 3.0;  ///< at step 0
  double end_factor = 1.0;          ///< at `steps` and after
  int64_t steps = 5;  ///< from lr * start_factor at step 0 to lr * end_factor at this step and after
};
/// PyTorch's LinearLR.
Schedule linear(const LinearOptions& options);

/// Options of `step_decay`.
struct StepDecayOptions {
  double lr;           ///< before the first decay
  int64_t step_size;   ///< steps between two decays
  double gamma = 0.1;  ///< the factor of each decay
};
/// PyTorch's StepLR.
Schedule step_decay(const StepDecayOptions& options);

/// Options of `exponential`.
struct ExponentialOptions {
  double lr;     ///< at step 0
  double gamma;  ///< the factor of each step
};
/// PyTorch's ExponentialLR: lr times gamma to the power of the step.
Schedule exponential(const ExponentialOptions& options);

/// The shape of a phase of `one_cycle`: half a cosine, or a line.
enum class Anneal { cosine, linear };

/// Options of `one_cycle`.
struct OneCycleOptions {
  double max_lr;                   ///< the rate at the end of the rise
  int64_t steps;                   ///< in total; the rate of the last one stays
  double rise = 0.3;               ///< the fraction of them in which the rate rises
  Anneal anneal = Anneal::cosine;  ///< the shape of each phase
  double div_factor = 25.0;        ///< the rate starts at max_lr / div_factor
  double final_div_factor = 1e4;   ///< and ends at its starting rate / final_div_factor
  bool three_phase =
      false;  ///< back to the starting rate in `rise` of the steps, then to the end; else one fall
};
/// The 1cycle policy (Smith and Topin 2019), PyTorch's OneCycleLR.
Schedule one_cycle(const OneCycleOptions& options);

/// lr times any function of the step; `name` identifies it in logs.
Schedule lambda(double lr, std::function<double(int64_t step)> factor, std::string name = "lambda");

}  // namespace tessera::optim
