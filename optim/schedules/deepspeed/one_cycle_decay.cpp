#include "optim/schedules/deepspeed/one_cycle_decay.h"

#include <cmath>

#include "optim/schedules/deepspeed/iteration.h"

namespace tessera::optim {
namespace {

/// The cycle, and what follows. The order of operations is DeepSpeed's.
struct Cycle {
  explicit Cycle(const OneCycleDecayOptions& o)
      : first(static_cast<double>(o.cycle_first_step_size)),
        second(static_cast<double>(o.cycle_second_step_size.value_or(o.cycle_first_step_size))),
        first_stairs(static_cast<double>(o.cycle_first_stair_count)),
        second_stairs(static_cast<double>(o.cycle_second_stair_count.value_or(o.cycle_first_stair_count))),
        decay_steps(static_cast<double>(o.decay_step_size)) {}

  double total() const { return first + second; }
  /// DeepSpeed compares the iteration before this step, so the first step after the cycle is in it: it has
  /// the lowest rate.
  bool has(int64_t step) const { return static_cast<double>(step) - 1.0 < total(); }
  /// 0 at the ends of the cycle, 1 at the top.
  double height(int64_t step) const {
    const double s = static_cast<double>(step), ratio = first / total();
    const double x = 1.0 + s / total() - std::floor(1.0 + s / total());
    const bool rises = x <= ratio;
    const double stairs = rises ? first_stairs : second_stairs;
    if (stairs <= 0.0) return rises ? x / ratio : (x - 1.0) / (ratio - 1.0);
    const double place = std::fmod(s, total());
    const double position = place <= first ? place * stairs / first : (total() - place) * stairs / second;
    return std::floor(position) / stairs;
  }
  /// 1 + rate, for each decay interval since the cycle.
  double decay(int64_t step, double rate) const {
    if (decay_steps == 0.0 || rate == 0.0) return 1.0;
    return 1.0 + rate * ((static_cast<double>(step) - total()) / decay_steps);
  }

  double first, second, first_stairs, second_stairs, decay_steps;
};

void check(const OneCycleDecayOptions& o) {
  constexpr char name[] = "one_cycle_decay";
  require_rate(name, "cycle_min_lr", o.cycle_min_lr);
  require_rate(name, "cycle_max_lr", o.cycle_max_lr);
  require_rate(name, "decay_lr_rate", o.decay_lr_rate);
  require_steps(name, "cycle_first_step_size", o.cycle_first_step_size, 1);
  require_steps(name, "cycle_second_step_size", o.cycle_second_step_size.value_or(0), 0);
  require_steps(name, "decay_step_size", o.decay_step_size, 0);
  require_rate(name, "decay_mom_rate", o.decay_mom_rate);
  const auto require_beta = [&](const char* option, double value) {
    require<ConfigError>(value >= 0.0 && value < 1.0, name, ": expected ", option, " in [0, 1), got ", value);
  };
  require_beta("cycle_min_mom", o.cycle_min_mom);
  require_beta("cycle_max_mom", o.cycle_max_mom);
}

}  // namespace

Schedule one_cycle_decay(const OneCycleDecayOptions& options) {
  check(options);
  const Cycle cycle(options);
  const auto rate = [o = options, cycle](int64_t step, double) {
    if (cycle.has(step)) return o.cycle_min_lr + (o.cycle_max_lr - o.cycle_min_lr) * cycle.height(step);
    return o.cycle_min_lr / cycle.decay(step, o.decay_lr_rate);
  };
  const auto momentum = [o = options, cycle](int64_t step) {
    if (step == 0) return o.cycle_min_mom;  // what DeepSpeed's constructor sets
    if (cycle.has(step)) return o.cycle_max_mom - (o.cycle_max_mom - o.cycle_min_mom) * cycle.height(step);
    return o.cycle_max_mom * cycle.decay(step, o.decay_mom_rate);
  };
  Schedule schedule("one_cycle_decay", rate, std::optional(options.cycle_max_lr));
  if (options.cycle_momentum)
    schedule.set_options({{"beta1", momentum}, {"beta2", [](int64_t) { return 0.99; }}});
  return resumed_after(options.last_batch_iteration, std::move(schedule));
}

}  // namespace tessera::optim
