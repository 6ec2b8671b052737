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

void ExponentialMovingAverage::begin(Task& task) {
  if (std::exchange(is_current_, true)) return;
  swapped_.reset();
  average_ = std::make_unique<nn::ExponentialMovingAverage>(task.module(),
                                                            nn::AverageOptions{.decay = options_.decay});
}

std::vector<dist::GroupShard> ExponentialMovingAverage::state_tensors(Trainer& trainer, Task& task) {
  if (trainer.interrupted() != 0) swapped_.reset();
  require<ConfigError>(!swapped_,
                       "ExponentialMovingAverage: expected a checkpoint outside of a validation, "
                       "in which the module has the averages as weights");
  begin(task);
  const dist::Sharding* sharding = trainer.engine().sharding();
  return {dist::average_shards(*average_, sharding ? dist::placement_of(*sharding) : dist::ShardPlacement{})};
}

void ExponentialMovingAverage::on_fit_start(Trainer& trainer, Task& task) {
  begin(task);
  taken_step_ = trainer.global_step();
  skipped_steps_ = trainer.engine().skipped_steps();
}

void ExponentialMovingAverage::on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) {
  const int64_t step = trainer.global_step();
  if (!trainer.is_at_step_end() || step == taken_step_) return;
  taken_step_ = step;
  const int64_t skipped = trainer.engine().skipped_steps();
  const bool is_skipped = skipped != std::exchange(skipped_steps_, skipped);
  if (is_skipped || step < options_.first_step || (step - options_.first_step) % options_.every_steps != 0)
    return;
  average_->update();
}

void ExponentialMovingAverage::on_validation_start(Trainer&, Task&) {
  if (is_current_ && options_.in_validation && average_->n_averaged() > 0) swapped_.emplace(*average_);
}

void ExponentialMovingAverage::on_validation_end(Trainer&, Task&) {
  swapped_.reset();
}

void ExponentialMovingAverage::on_train_epoch_end(Trainer&, Task&) {
  swapped_.reset();
}

void ExponentialMovingAverage::on_train_end(Trainer&, Task&) {
  swapped_.reset();
}

void ExponentialMovingAverage::on_fit_end(Trainer&, Task&) {
  is_current_ = false;
  if (!options_.at_end || average_->n_averaged() == 0) return;
  average_->copy_to_module();
}

void ExponentialMovingAverage::on_exception(Trainer&, Task&, const std::exception&) {
  swapped_.reset();
  is_current_ = false;
}

nn::ExponentialMovingAverage& ExponentialMovingAverage::average() {
  require<ConfigError>(average_ != nullptr, "ExponentialMovingAverage: expected a fit before");
  return *average_;
}

}  // namespace tessera::training
