#include "optim/schedules/reduce_lr_on_plateau.h"

#include <algorithm>
#include <limits>

#include "optim/schedules/schedule_checks.h"

namespace tessera::optim {

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const Options& options)
    : optimizer_(optimizer), options_(options), state_{} {
  constexpr char name[] = "ReduceLROnPlateau";
  require<ConfigError>(options.factor >= 0.0 && options.factor < 1.0, name,
                       ": expected factor in [0, 1), got ", options.factor);
  require_steps(name, "patience", options.patience, 0);
  require_rate(name, "threshold", options.threshold);
  require_steps(name, "cooldown", options.cooldown, 0);
  require_rate(name, "min_lr", options.min_lr);
  require_rate(name, "eps", options.eps);
  const double worst = std::numeric_limits<double>::infinity();
  state_.best = options.mode == Mode::min ? worst : -worst;
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const auto& [mode, factor, patience, threshold, threshold_mode, cooldown, min_lr, eps] = options_;
  const double sign = mode == Mode::min ? -1.0 : 1.0;
  const double bound = threshold_mode == ThresholdMode::rel ? state_.best * (1.0 + sign * threshold)
                                                            : state_.best + sign * threshold;
  return mode == Mode::min ? metric < bound : metric > bound;
}

void ReduceLROnPlateau::step(double metric) {
  if (is_better(metric)) {
    state_.best = metric;
    state_.num_bad_epochs = 0;
  } else {
    ++state_.num_bad_epochs;
  }
  if (state_.cooldown_counter > 0) {
    --state_.cooldown_counter;
    state_.num_bad_epochs = 0;
  }
  if (state_.num_bad_epochs <= options_.patience) return;
  reduce();
  state_.cooldown_counter = options_.cooldown;
  state_.num_bad_epochs = 0;
}

void ReduceLROnPlateau::reduce() {
  for (int group = 0; group < optimizer_.group_count(); ++group) {
    const double before = optimizer_.lr(group).item();
    const double after = std::max(before * options_.factor, options_.min_lr);
    if (before - after > options_.eps) optimizer_.set_lr(group, after);
  }
}

void ReduceLROnPlateau::load_state(const ReduceLROnPlateauState& state) {
  require<CheckpointError>(state.num_bad_epochs >= 0 && state.cooldown_counter >= 0,
                           "ReduceLROnPlateau: expected counts of at least 0, got ", state.num_bad_epochs,
                           " and ", state.cooldown_counter);
  state_ = state;
}

}  // namespace tessera::optim
