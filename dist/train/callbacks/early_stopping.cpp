#include "dist/train/callbacks/early_stopping.h"

#include <cmath>
#include <utility>

#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"

namespace tessera::training {

EarlyStopping::EarlyStopping(EarlyStoppingOptions options)
    : options_(std::move(options)), best_(worst(options_.best)) {
  require<ConfigError>(options_.patience >= 0, "EarlyStopping: patience ", options_.patience,
                       ": expected 0 or more");
  require<ConfigError>(options_.min_delta >= 0, "EarlyStopping: min_delta ", options_.min_delta,
                       ": expected 0 or more");
}

void EarlyStopping::on_validation_end(Trainer& trainer, Task&) {
  if (trainer.is_sanity_checking()) return;
  const double value = monitored_value("EarlyStopping", options_.monitor, trainer.logged());
  const Best best = options_.best;
  if (options_.check_finite && !std::isfinite(value)) {
    reason_ = text(options_.monitor, " is ", value);
  } else if (options_.stopping_threshold && is_better(value, *options_.stopping_threshold, best)) {
    reason_ = text(options_.monitor, " reached ", value, ", better than ", *options_.stopping_threshold);
  } else if (options_.divergence_threshold && is_better(*options_.divergence_threshold, value, best)) {
    reason_ = text(options_.monitor, " reached ", value, ", worse than ", *options_.divergence_threshold);
  } else if (is_better(value, best_, best, options_.min_delta)) {
    best_ = value;
    waited_ = 0;
  } else if (++waited_ >= options_.patience) {
    reason_ = text(options_.monitor, " did not improve on ", best_, " in ", waited_, " validations");
  }
  if (!reason_.empty()) trainer.stop();
}

std::map<std::string, std::string> EarlyStopping::state() const {
  return {{"best", to_state(best_)}, {"waited", std::to_string(waited_)}};
}

void EarlyStopping::load_state(const std::map<std::string, std::string>& state) {
  if (const auto found = state.find("best"); found != state.end()) best_ = from_state(found->second);
  if (const auto found = state.find("waited"); found != state.end())
    waited_ = static_cast<int64_t>(from_state(found->second));
}

}  // namespace tessera::training
