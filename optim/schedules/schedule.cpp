#include "optim/schedules/schedule.h"

#include <cmath>
#include <numbers>

namespace tessera::optim {
namespace {

void require_rate(const char* schedule, const char* option, double value) {
  require<ConfigError>(std::isfinite(value) && value >= 0.0, schedule, ": expected ", option,
                       " to be at least 0, got ", value);
}

void require_above_zero(const char* schedule, const char* option, double value) {
  require<ConfigError>(std::isfinite(value) && value > 0.0, schedule, ": expected ", option, " above 0, got ",
                       value);
}

void require_warmup(const char* schedule, int64_t steps) {
  require<ConfigError>(steps >= 0, schedule, ": expected warmup_steps to be at least 0, got ", steps);
}

double warm_up(double lr, int64_t step, int64_t warmup_steps) {
  return lr * static_cast<double>(step + 1) / static_cast<double>(warmup_steps + 1);
}

/// 1 at `progress` = 0, 0 at 1, half a cosine between.
double half_cosine(double progress) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

struct Phase {
  double end;  // step
  double from, to;
};

double one_cycle_rate(const OneCycleOptions& o, int64_t step) {
  const double low = o.max_lr / o.div_factor, last = low / o.final_div_factor;
  const double total = static_cast<double>(o.steps), top = o.rise * total - 1.0;
  const Phase three[] = {{top, low, o.max_lr}, {2.0 * top, o.max_lr, low}, {total - 1.0, low, last}};
  const Phase two[] = {{top, low, o.max_lr}, {total - 1.0, o.max_lr, last}};
  const double s = static_cast<double>(step);
  double start = 0.0;
  for (const Phase& phase : o.three_phase ? std::span<const Phase>(three) : std::span<const Phase>(two)) {
    if (s <= phase.end) {
      const double progress = phase.end > start ? (s - start) / (phase.end - start) : 1.0;
      const double remaining = o.anneal == Anneal::cosine ? half_cosine(progress) : 1.0 - progress;
      return phase.to + (phase.from - phase.to) * remaining;
    }
    start = phase.end;
  }
  return last;
}

}  // namespace

double Schedule::at(int64_t step) const {
  require<ValueError>(step >= 0, "schedule '", name_, "': expected a step of at least 0, got ", step);
  return rate_(step);
}

void Schedule::apply(Optimizer& optimizer) const {
  const double rate = at(position_);
  if (optimizer.has_one_base_lr()) return optimizer.set_lr(rate);
  require<ConfigError>(
      lr_ > 0.0, "schedule '", name_, "': the groups of ", optimizer.name(),
      " have different rates, and the schedule has no lr above 0 to scale them by; set its lr, "
      "or apply it to each group");
  for (int group = 0; group < optimizer.group_count(); ++group)
    optimizer.set_lr(group, rate * (optimizer.base_lr(group) / lr_));
}

void Schedule::set_position(int64_t step) {
  require<ValueError>(step >= 0, "schedule '", name_, "': expected a position of at least 0, got ", step);
  position_ = step;
}

Schedule cosine(const CosineOptions& options) {
  require_rate("cosine", "lr", options.lr);
  require_rate("cosine", "min_lr", options.min_lr);
  require_warmup("cosine", options.warmup_steps);
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

Schedule constant(const ConstantOptions& options) {
  require_rate("constant", "lr", options.lr);
  require_warmup("constant", options.warmup_steps);
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
  require<ConfigError>(options.steps >= 1, "linear: expected at least 1 step, got ", options.steps);
  return {"linear",
          [o = options](int64_t step) {
            const double progress =
                step >= o.steps ? 1.0 : static_cast<double>(step) / static_cast<double>(o.steps);
            return o.lr * (o.start_factor + (o.end_factor - o.start_factor) * progress);
          },
          options.lr};
}

Schedule step_decay(const StepDecayOptions& options) {
  require_rate("step_decay", "lr", options.lr);
  require_above_zero("step_decay", "gamma", options.gamma);
  require<ConfigError>(options.step_size >= 1, "step_decay: expected step_size to be at least 1, got ",
                       options.step_size);
  return {"step_decay",
          [o = options](int64_t step) {
            const int64_t drops = step / o.step_size;
            return o.lr * std::pow(o.gamma, static_cast<double>(drops));
          },
          options.lr};
}

Schedule exponential(const ExponentialOptions& options) {
  require_rate("exponential", "lr", options.lr);
  require_above_zero("exponential", "gamma", options.gamma);
  return {"exponential",
          [o = options](int64_t step) { return o.lr * std::pow(o.gamma, static_cast<double>(step)); },
          options.lr};
}

Schedule one_cycle(const OneCycleOptions& options) {
  require_rate("one_cycle", "max_lr", options.max_lr);
  require_above_zero("one_cycle", "div_factor", options.div_factor);
  require_above_zero("one_cycle", "final_div_factor", options.final_div_factor);
  require<ConfigError>(options.steps >= 1, "one_cycle: expected at least 1 step, got ", options.steps);
  const double limit = options.three_phase ? 0.5 : 1.0;
  require<ConfigError>(options.rise >= 0.0 && options.rise <= limit, "one_cycle: expected rise in [0, ",
                       limit, "], got ", options.rise);
  return {"one_cycle", [o = options](int64_t step) { return one_cycle_rate(o, step); }, options.max_lr};
}

Schedule lambda(double lr, std::function<double(int64_t)> factor, std::string name) {
  require_rate("lambda", "lr", lr);
  require<ConfigError>(static_cast<bool>(factor), "lambda: expected a function of the step, got none");
  return {std::move(name), [lr, factor = std::move(factor)](int64_t step) { return lr * factor(step); }, lr};
}

}  // namespace tessera::optim
