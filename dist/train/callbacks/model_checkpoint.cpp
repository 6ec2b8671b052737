#include "dist/train/callbacks/model_checkpoint.h"

#include <optional>
#include <utility>

#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"

namespace tessera::training {

ModelCheckpoint::ModelCheckpoint(ModelCheckpointOptions options)
    : options_(std::move(options)), best_(worst(options_.best)) {
  require<ConfigError>(!options_.folder.empty(), "ModelCheckpoint: expected a folder, got none");
  require<ConfigError>(options_.every_steps >= 0, "ModelCheckpoint: every_steps ", options_.every_steps,
                       ": expected 0 or more");
  require<ConfigError>(options_.keep >= 0, "ModelCheckpoint: keep ", options_.keep, ": expected 0 or more");
}

void ModelCheckpoint::on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) {
  const int64_t step = trainer.global_step(), every = options_.every_steps;
  if (every == 0 || step == saved_step_ || step % every != 0 || !trainer.is_at_step_end()) return;
  // After the validation at the end of an epoch, which belongs to this step.
  if (trainer.is_last_batch())
    is_due_ = true;
  else
    save(trainer);
}

void ModelCheckpoint::on_train_epoch_end(Trainer& trainer, Task&) {
  if (trainer.is_at_step_end() && (options_.every_steps == 0 || std::exchange(is_due_, false))) save(trainer);
}

void ModelCheckpoint::on_train_end(Trainer& trainer, Task&) {
  const bool is_interrupted_since = trainer.interrupted() != 0 && !was_interrupted_;
  if ((trainer.global_step() != saved_step_ || is_interrupted_since) && trainer.is_at_step_end())
    save(trainer);
}

void ModelCheckpoint::save(Trainer& trainer) {
  std::optional<double> loss;  // of which the lowest is the best
  was_interrupted_ = trainer.interrupted() != 0;
  const bool has_value = !was_interrupted_ || trainer.logged().contains(options_.monitor);
  if (!options_.monitor.empty() && has_value) {
    const double value = monitored_value("ModelCheckpoint", options_.monitor, trainer.logged());
    loss = options_.best == Best::lowest ? value : -value;
    if (is_better(value, best_, options_.best)) {
      best_ = value;
      best_checkpoint_ = options_.folder + "/" + trainer.checkpoint_name();
    }
  }
  saved_step_ = trainer.global_step();
  last_ =
      trainer.save_checkpoint(options_.folder, {.validation_loss = loss, .run = {}, .keep = options_.keep});
}

std::map<std::string, std::string> ModelCheckpoint::state() const {
  return {{"best", to_state(best_)}, {"best_checkpoint", best_checkpoint_}};
}

void ModelCheckpoint::load_state(const std::map<std::string, std::string>& state) {
  if (const auto found = state.find("best"); found != state.end()) best_ = from_state(found->second);
  if (const auto found = state.find("best_checkpoint"); found != state.end())
    best_checkpoint_ = found->second;
}

}  // namespace tessera::training
