#pragma once

#include <vector>

#include "optim/schedules/schedule.h"

/// Schedules that multiply the rate by a factor. Without the option `lr` they multiply the rate with which
/// each group was made. Each function throws ConfigError for options out of range.
namespace tessera::optim {

/// Options of `constant`.
struct ConstantOptions {
  double lr;                 ///< after the warm-up
  int64_t warmup_steps = 0;  ///< as in CosineOptions
};
/// Linear warm-up, then the same rate.
Schedule constant(const ConstantOptions& options);

/// Options of `linear`.
struct LinearOptions {
  std::optional<double> lr = {};    ///< the rate that the factors multiply
  double start_factor = 1.0 / 3.0;  ///< at step 0
  double end_factor = 1.0;          ///< at `steps` and after
  int64_t steps = 5;  ///< from lr * start_factor at step 0 to lr * end_factor at this step and after
};
/// PyTorch's LinearLR.
Schedule linear(const LinearOptions& options);

/// Options of `linear_warmup`.
struct LinearWarmupOptions {
  std::optional<double> lr = {};  ///< after the warm-up
  double start_factor = 0.0;      ///< the rate of step 0 is lr times this factor
  int64_t warmup_steps;           ///< the first step with the rate lr
};
/// A line from lr * start_factor at step 0 to lr at `warmup_steps`, then lr: PyTorch's LinearLR from a factor
/// to 1. The first part of `sequential`.
Schedule linear_warmup(const LinearWarmupOptions& options);

/// Options of `step_decay`.
struct StepDecayOptions {
  std::optional<double> lr = {};  ///< before the first decay
  int64_t step_size;              ///< steps between two decays
  double gamma = 0.1;             ///< the factor of each decay
};
/// PyTorch's StepLR.
Schedule step_decay(const StepDecayOptions& options);

/// Options of `multi_step`.
struct MultiStepOptions {
  std::optional<double> lr = {};  ///< before the first milestone
  std::vector<int64_t>
      milestones;      ///< the steps at which the rate falls, in order; one given twice counts twice
  double gamma = 0.1;  ///< the factor of each fall
};
/// PyTorch's MultiStepLR.
Schedule multi_step(const MultiStepOptions& options);

/// Options of `exponential`.
struct ExponentialOptions {
  std::optional<double> lr = {};  ///< at step 0
  double gamma;                   ///< the factor of each step
};
/// PyTorch's ExponentialLR: lr times gamma to the power of the step.
Schedule exponential(const ExponentialOptions& options);

/// Options of `polynomial`.
struct PolynomialOptions {
  std::optional<double> lr = {};  ///< at step 0
  int64_t total_iters = 5;        ///< the first step with the rate 0
  double power = 1.0;             ///< of the remaining fraction of the steps
};
/// PyTorch's PolynomialLR: lr (1 - step / total_iters)^power, then 0.
Schedule polynomial(const PolynomialOptions& options);

}  // namespace tessera::optim
