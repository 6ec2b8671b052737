#include "optim/schedules/reduce_lr_on_plateau.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "optim/schedules/schedule_checks.h"

namespace tessera::optim {

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const Options& options)
    : optimizer_(optimizer), options_(options) {
  constexpr char name[] = "ReduceLROnPlateau";
  require<ConfigError>(options.factor >= 0.0 && options.factor < 1.0, name,
                       ": expected factor in [0, 1), got ", options.factor);
  require_steps(name, "patience", options.patience, 0);
  require_rate(name, "threshold", options.threshold);
  require_steps(name, "cooldown", options.cooldown, 0);
  for (const double min_lr : options.min_lr.values()) require_rate(name, "min_lr", min_lr);
  require_rate(name, "eps", options.eps);
  const double worst = std::numeric_limits<double>::infinity();
  best_ = options.mode == Mode::min ? worst : -worst;
  require_fit();
}

void ReduceLROnPlateau::require_fit() const {
  require<ConfigError>(options_.min_lr.fits(optimizer_.group_count()),
                       "ReduceLROnPlateau: expected one min_lr, or one for each of the ",
                       optimizer_.group_count(), " groups of ", optimizer_.name(), ", got ",
                       options_.min_lr.values().size());
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const auto& [mode, factor, patience, threshold, threshold_mode, cooldown, min_lr, eps] = options_;
  const double sign = mode == Mode::min ? -1.0 : 1.0;
  const double bound =
      threshold_mode == ThresholdMode::rel ? best_ * (1.0 + sign * threshold) : best_ + sign * threshold;
  return mode == Mode::min ? metric < bound : metric > bound;
}

void ReduceLROnPlateau::step(double metric) {
  require_fit();
  if (is_better(metric)) {
    best_ = metric;
    num_bad_epochs_ = 0;
  } else {
    ++num_bad_epochs_;
  }
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  if (num_bad_epochs_ <= options_.patience) return;
  reduce();
  cooldown_counter_ = options_.cooldown;
  num_bad_epochs_ = 0;
}

void ReduceLROnPlateau::reduce() {
  for (int group = 0; group < optimizer_.group_count(); ++group) {
    const double before = optimizer_.lr(group).item();
    const double after = std::max(before * options_.factor, options_.min_lr.of(group));
    if (before - after > options_.eps) optimizer_.set_lr(group, after);
  }
}

ReduceLROnPlateauState ReduceLROnPlateau::state() const {
  ReduceLROnPlateauState state{best_, num_bad_epochs_, cooldown_counter_, {}};
  for (int group = 0; group < optimizer_.group_count(); ++group)
    state.lr.push_back(optimizer_.lr(group).item());
  return state;
}

void ReduceLROnPlateau::load_state(const ReduceLROnPlateauState& state) {
  require<CheckpointError>(state.num_bad_epochs >= 0 && state.cooldown_counter >= 0,
                           "ReduceLROnPlateau: expected counts of at least 0, got ", state.num_bad_epochs,
                           " and ", state.cooldown_counter);
  require<CheckpointError>(std::ssize(state.lr) == optimizer_.group_count(),
                           "ReduceLROnPlateau: expected the rates of ", optimizer_.group_count(),
                           " groups, got ", state.lr.size());
  for (const double lr : state.lr)
    require<CheckpointError>(std::isfinite(lr) && lr >= 0.0,
                             "ReduceLROnPlateau: expected rates of at least 0, got ", lr);
  best_ = state.best;
  num_bad_epochs_ = state.num_bad_epochs;
  cooldown_counter_ = state.cooldown_counter;
  for (int group = 0; group < optimizer_.group_count(); ++group)
    optimizer_.set_lr(group, state.lr[static_cast<size_t>(group)]);
}

}  // namespace tessera::optim
