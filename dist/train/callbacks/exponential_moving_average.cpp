#include "dist/train/callbacks/exponential_moving_average.h"

#include <utility>

#include "dist/checkpoint/model_state.h"
#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"

namespace tessera::training {

ExponentialMovingAverage::ExponentialMovingAverage(ExponentialMovingAverageOptions options)
    : options_(options) {
  require<ConfigError>(options_.decay >= 0 && options_.decay <= 1, "ExponentialMovingAverage: decay ",
                       options_.decay, ": expected a number in [0, 1]");
  require<ConfigError>(options_.every_steps >= 1, "ExponentialMovingAverage: every_steps ",
                       options_.every_steps, ": expected 1 or more");
  require<ConfigError>(options_.first_step >= 1, "ExponentialMovingAverage: first_step ", options_.first_step,
                       ": expected 1 or more");
}

ExponentialMovingAverage::~ExponentialMovingAverage() = default;

void ExponentialMovingAverage::begin(Trainer& trainer, Task& task) {
  if (std::exchange(is_current_, true)) return;
  averages_.clear();
  if (task.automatic_optimization()) return add("", trainer.engine());
  ManualOptimization& manual = trainer.manual();
  for (int i = 0; i < manual.size(); ++i) add(manual.parts()[static_cast<size_t>(i)].name, manual.engine(i));
}

void ExponentialMovingAverage::add(const std::string& part, EngineCore& engine) {
  const nn::AverageOptions options{.decay = options_.decay};
  averages_.push_back({.part = part,
                       .engine = &engine,
                       .average = std::make_unique<nn::ExponentialMovingAverage>(engine.module(), options),
                       .swapped = nullptr,
                       .skipped_steps = 0});
}

void ExponentialMovingAverage::end_swap() {
  for (Average& each : averages_) each.swapped.reset();
}

std::vector<dist::GroupShard> ExponentialMovingAverage::state_tensors(Trainer& trainer, Task& task) {
  if (trainer.interrupted() != 0) end_swap();
  begin(trainer, task);
  std::vector<dist::GroupShard> groups;
  for (const Average& each : averages_) {
    require<ConfigError>(!each.swapped,
                         "ExponentialMovingAverage: expected a checkpoint outside of a validation, "
                         "in which the module has the averages as weights");
    groups.push_back(dist::average_shards(*each.average, each.engine->placement()));
    if (!each.part.empty()) groups.back().name += "." + each.part;
  }
  return groups;
}

void ExponentialMovingAverage::on_fit_start(Trainer& trainer, Task& task) {
  begin(trainer, task);
  for (Average& each : averages_) each.skipped_steps = each.engine->skipped_steps();
}

void ExponentialMovingAverage::on_before_zero_grad(Trainer&, Task&, optim::Optimizer& optimizer) {
  for (Average& each : averages_) {
    if (&each.engine->optimizer() != &optimizer) continue;
    const int64_t step = each.engine->global_steps(), skipped = each.engine->skipped_steps();
    const bool is_skipped = skipped != std::exchange(each.skipped_steps, skipped);
    if (!is_skipped && step >= options_.first_step &&
        (step - options_.first_step) % options_.every_steps == 0)
      each.average->update();
  }
}

void ExponentialMovingAverage::on_validation_start(Trainer&, Task&) {
  if (!is_current_ || !options_.in_validation) return;
  for (Average& each : averages_)
    if (each.average->n_averaged() > 0)
      each.swapped = std::make_unique<nn::ExponentialMovingAverage::Swapped>(*each.average);
}

void ExponentialMovingAverage::on_validation_end(Trainer&, Task&) {
  end_swap();
}

void ExponentialMovingAverage::on_train_epoch_end(Trainer&, Task&) {
  end_swap();
}

void ExponentialMovingAverage::on_train_end(Trainer&, Task&) {
  end_swap();
}

void ExponentialMovingAverage::on_fit_end(Trainer&, Task&) {
  is_current_ = false;
  if (!options_.at_end) return;
  for (const Average& each : averages_)
    if (each.average->n_averaged() > 0) each.average->copy_to_module();
}

void ExponentialMovingAverage::on_exception(Trainer&, Task&, const std::exception&) {
  end_swap();
  is_current_ = false;
}

nn::ExponentialMovingAverage& ExponentialMovingAverage::average() {
  require<ConfigError>(!averages_.empty(), "ExponentialMovingAverage: expected a fit before");
  require<ConfigError>(averages_.size() == 1, "ExponentialMovingAverage: expected the name of one of the ",
                       averages_.size(), " parts, got none");
  return *averages_.front().average;
}

nn::ExponentialMovingAverage& ExponentialMovingAverage::average(const std::string& part) {
  std::string names;
  for (const Average& each : averages_) {
    if (each.part == part) return *each.average;
    names += (names.empty() ? "'" : ", '") + each.part + "'";
  }
  throw ConfigError(text("ExponentialMovingAverage: expected a part of the newest fit (",
                         names.empty() ? "none" : names, "), got '", part, "'"));
}

}  // namespace tessera::training
