#include "optim/schedules/one_cycle.h"

#include <span>

#include "optim/schedules/cosine.h"
#include "optim/schedules/schedule_checks.h"

namespace tessera::optim {
namespace {

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

Schedule one_cycle(const OneCycleOptions& options) {
  require_rate("one_cycle", "max_lr", options.max_lr);
  require_above_zero("one_cycle", "div_factor", options.div_factor);
  require_above_zero("one_cycle", "final_div_factor", options.final_div_factor);
  require_steps("one_cycle", "steps", options.steps, 1);
  const double limit = options.three_phase ? 0.5 : 1.0;
  require<ConfigError>(options.rise >= 0.0 && options.rise <= limit, "one_cycle: expected rise in [0, ",
                       limit, "], got ", options.rise);
  return {"one_cycle", [o = options](int64_t step) { return one_cycle_rate(o, step); }, options.max_lr};
}

}  // namespace tessera::optim
