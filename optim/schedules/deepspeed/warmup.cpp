#include "optim/schedules/deepspeed/warmup.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "optim/schedules/deepspeed/iteration.h"

namespace tessera::optim {
namespace {

/// DeepSpeed's least number of iterations: log(1) is 0.
int64_t rise_of(int64_t warmup_num_steps) {
  return std::max<int64_t>(2, warmup_num_steps);
}

/// The fraction of the rise at an iteration of it, from 0. The order of operations is DeepSpeed's.
double risen(WarmupType type, int64_t iteration, int64_t iterations) {
  if (type == WarmupType::linear) return static_cast<double>(iteration) / static_cast<double>(iterations);
  return 1.0 / std::log(static_cast<double>(iterations)) * std::log(static_cast<double>(iteration + 1));
}

/// min_lr at step 0, then min_lr + (max_lr - min_lr) gamma(iteration).
template <class Gamma>
double rate_between(double min_lr, double max_lr, int64_t step, const Gamma& gamma) {
  return step == 0 ? min_lr : min_lr + (max_lr - min_lr) * gamma(step - 1);
}

template <class Options>
void check(const char* schedule, const Options& o) {
  require_rate(schedule, "warmup_min_lr", o.warmup_min_lr);
  require_rate(schedule, "warmup_max_lr", o.warmup_max_lr);
  require_steps(schedule, "warmup_num_steps", o.warmup_num_steps, 1);
}

}  // namespace

Schedule warmup(const WarmupOptions& options) {
  check("warmup", options);
  const auto gamma = [type = options.warmup_type, n = rise_of(options.warmup_num_steps)](int64_t iteration) {
    return iteration < n ? risen(type, iteration, n) : 1.0;
  };
  const auto rate = [o = options, gamma](int64_t step, double base_lr) {
    return rate_between(o.warmup_min_lr, o.warmup_max_lr.value_or(base_lr), step, gamma);
  };
  return resumed_after(options.last_batch_iteration, {"warmup", rate, options.warmup_max_lr});
}

Schedule warmup_decay(const WarmupDecayOptions& options) {
  check("warmup_decay", options);
  require_steps("warmup_decay", "total_num_steps", options.total_num_steps, 1);
  const auto gamma = [type = options.warmup_type, n = rise_of(options.warmup_num_steps),
                      total = options.total_num_steps](int64_t iteration) {
    if (iteration < n) return risen(type, iteration, n);
    return std::max(
        0.0, static_cast<double>(total - iteration) / static_cast<double>(std::max<int64_t>(1, total - n)));
  };
  const auto rate = [o = options, gamma](int64_t step, double) {
    return rate_between(o.warmup_min_lr, o.warmup_max_lr, step, gamma);
  };
  return resumed_after(options.last_batch_iteration,
                       {"warmup_decay", rate, std::optional(options.warmup_max_lr)});
}

Schedule warmup_cosine(const WarmupCosineOptions& options) {
  require_rate("warmup_cosine", "lr", options.lr);
  require_steps("warmup_cosine", "total_num_steps", options.total_num_steps, 1);
  require_rate("warmup_cosine", "warmup_min_ratio", options.warmup_min_ratio);
  require_steps("warmup_cosine", "warmup_num_steps", options.warmup_num_steps, 1);
  require_rate("warmup_cosine", "cos_min_ratio", options.cos_min_ratio);
  const auto ratio = [o = options, n = rise_of(options.warmup_num_steps)](int64_t iteration) {
    if (iteration < n)
      return o.warmup_min_ratio + risen(o.warmup_type, iteration, n) * (1.0 - o.warmup_min_ratio);
    const double steps = static_cast<double>(std::max<int64_t>(1, o.total_num_steps - n));
    const double progress = std::min(1.0, static_cast<double>(iteration - n + 1) / steps);
    const double remaining = (1.0 + std::cos(std::numbers::pi * progress)) / 2.0;
    return std::max(0.0, o.cos_min_ratio + (1.0 - o.cos_min_ratio) * remaining);
  };
  const auto rate = [ratio](int64_t step, double lr) { return step == 0 ? 0.0 : lr * ratio(step - 1); };
  return resumed_after(options.last_batch_iteration, {"warmup_cosine", rate, options.lr});
}

}  // namespace tessera::optim
