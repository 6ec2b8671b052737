#include "optim/schedules/decay.h"

#include <algorithm>
#include <cmath>

#include "optim/schedules/schedule_checks.h"
#include "optim/schedules/warmup.h"

namespace tessera::optim {
namespace {

/// A line from `start` at step 0 to `end` at `steps`, then `end`.
double line(double start, double end, int64_t step, int64_t steps) {
  const double progress = step >= steps ? 1.0 : static_cast<double>(step) / static_cast<double>(steps);
  return start + (end - start) * progress;
}

}  // namespace

Schedule constant(const ConstantOptions& options) {
  require_rate("constant", "lr", options.lr);
  require_steps("constant", "warmup_steps", options.warmup_steps, 0);
  return {"constant",
          [o = options](int64_t step) {
            return step < o.warmup_steps ? warm_up(o.lr, step, o.warmup_steps) : o.lr;
          },
          options.lr};
}

Schedule linear(const LinearOptions& options) {
  require_rate("linear", "lr", options.lr);
  require_rate("linear", "start_factor", options.start_factor);
  require_rate("linear", "end_factor", options.end_factor);
  require_steps("linear", "steps", options.steps, 1);
  return {"linear",
          [o = options](int64_t step, double lr) {
            return lr * line(o.start_factor, o.end_factor, step, o.steps);
          },
          options.lr};
}

Schedule linear_warmup(const LinearWarmupOptions& options) {
  require_rate("linear_warmup", "lr", options.lr);
  require_rate("linear_warmup", "start_factor", options.start_factor);
  require_steps("linear_warmup", "warmup_steps", options.warmup_steps, 1);
  return {
      "linear_warmup",
      [o = options](int64_t step, double lr) { return lr * line(o.start_factor, 1.0, step, o.warmup_steps); },
      options.lr};
}

Schedule step_decay(const StepDecayOptions& options) {
  require_rate("step_decay", "lr", options.lr);
  require_above_zero("step_decay", "gamma", options.gamma);
  require_steps("step_decay", "step_size", options.step_size, 1);
  return {"step_decay",
          [o = options](int64_t step, double lr) {
            const int64_t drops = step / o.step_size;
            return lr * std::pow(o.gamma, static_cast<double>(drops));
          },
          options.lr};
}

Schedule multi_step(const MultiStepOptions& options) {
  require_rate("multi_step", "lr", options.lr);
  require_above_zero("multi_step", "gamma", options.gamma);
  for (const int64_t milestone : options.milestones) require_steps("multi_step", "milestones", milestone, 0);
  require<ConfigError>(std::is_sorted(options.milestones.begin(), options.milestones.end()),
                       "multi_step: expected milestones in increasing order");
  return {"multi_step",
          [o = options](int64_t step, double lr) {
            const auto& list = o.milestones;
            const auto drops = std::upper_bound(list.begin(), list.end(), step) - list.begin();
            return lr * std::pow(o.gamma, static_cast<double>(drops));
          },
          options.lr};
}

Schedule exponential(const ExponentialOptions& options) {
  require_rate("exponential", "lr", options.lr);
  require_above_zero("exponential", "gamma", options.gamma);
  return {"exponential",
          [gamma = options.gamma](int64_t step, double lr) {
            return lr * std::pow(gamma, static_cast<double>(step));
          },
          options.lr};
}

Schedule polynomial(const PolynomialOptions& options) {
  require_rate("polynomial", "lr", options.lr);
  require_above_zero("polynomial", "power", options.power);
  require_steps("polynomial", "total_iters", options.total_iters, 1);
  return {"polynomial",
          [o = options](int64_t step, double lr) {
            return lr * std::pow(line(1.0, 0.0, step, o.total_iters), o.power);
          },
          options.lr};
}

}  // namespace tessera::optim
