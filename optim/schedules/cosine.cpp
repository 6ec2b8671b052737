#include "optim/schedules/cosine.h"

#include <cmath>
#include <numbers>

#include "optim/schedules/schedule_checks.h"
#include "optim/schedules/warmup.h"

namespace tessera::optim {

double half_cosine(double progress) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

Schedule cosine(const CosineOptions& options) {
  require_rate("cosine", "lr", options.lr);
  require_rate("cosine", "min_lr", options.min_lr);
  require_steps("cosine", "warmup_steps", options.warmup_steps, 0);
  require<ConfigError>(options.steps >= options.warmup_steps,
                       "cosine: expected steps to be at least warmup_steps (", options.warmup_steps,
                       "), got ", options.steps);
  return {"cosine",
          [o = options](int64_t step) {
            if (step < o.warmup_steps) return warm_up(o.lr, step, o.warmup_steps);
            if (step >= o.steps) return o.min_lr;
            const double progress =
                static_cast<double>(step - o.warmup_steps) / static_cast<double>(o.steps - o.warmup_steps);
            return o.min_lr + half_cosine(progress) * (o.lr - o.min_lr);
          },
          options.lr};
}

Schedule cosine_annealing(const CosineAnnealingOptions& options) {
  require_rate("cosine_annealing", "lr", options.lr);
  require_rate("cosine_annealing", "eta_min", options.eta_min);
  require_steps("cosine_annealing", "t_max", options.t_max, 1);
  return {"cosine_annealing",
          [o = options](int64_t step, double lr) {
            const double progress = static_cast<double>(step % (2 * o.t_max)) / static_cast<double>(o.t_max);
            return o.eta_min + (lr - o.eta_min) * half_cosine(progress);
          },
          options.lr};
}

Schedule cosine_warm_restarts(const CosineWarmRestartsOptions& options) {
  require_rate("cosine_warm_restarts", "lr", options.lr);
  require_rate("cosine_warm_restarts", "eta_min", options.eta_min);
  require_steps("cosine_warm_restarts", "t_0", options.t_0, 1);
  require_steps("cosine_warm_restarts", "t_mult", options.t_mult, 1);
  return {"cosine_warm_restarts",
          [o = options](int64_t step, double lr) {
            int64_t period = o.t_0;
            if (o.t_mult == 1) step %= period;
            for (; step >= period; period *= o.t_mult) step -= period;
            const double progress = static_cast<double>(step) / static_cast<double>(period);
            return o.eta_min + (lr - o.eta_min) * half_cosine(progress);
          },
          options.lr};
}

}  // namespace tessera::optim
