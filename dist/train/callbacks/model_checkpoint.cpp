#include "dist/train/callbacks/model_checkpoint.h"

#include <utility>
#include <vector>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/train/ranks/run_together.h"
#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"

namespace tessera::training {

namespace {

/// Whether on_train_epoch_end follows the newest batch.
bool is_epoch_end(const Trainer& trainer) {
  return trainer.is_last_batch() || trainer.is_run_end();
}

/// Whether a run without the signal saves this step too, with the values that it has now. Else its value,
/// such as the loss of one batch in the middle of an epoch, is none that the best checkpoint is chosen by.
bool is_regular(const Trainer& trainer, int64_t every_steps) {
  const bool ends_later = is_epoch_end(trainer) && trainer.is_validation_due();
  const bool is_step = every_steps > 0 && trainer.global_step() % every_steps == 0;
  return !ends_later && (is_step || trainer.is_run_end() || (every_steps == 0 && trainer.is_last_batch()));
}

}  // namespace

ModelCheckpoint::ModelCheckpoint(ModelCheckpointOptions options)
    : options_(std::move(options)), best_(worst(options_.best)) {
  require<ConfigError>(!options_.folder.empty(), "ModelCheckpoint: expected a folder, got none");
  require<ConfigError>(options_.every_steps >= 0, "ModelCheckpoint: every_steps ", options_.every_steps,
                       ": expected 0 or more");
  require<ConfigError>(options_.keep >= 0, "ModelCheckpoint: keep ", options_.keep, ": expected 0 or more");
  require<ConfigError>(options_.keep_best >= 1 && (options_.keep_best == 1 || !options_.monitor.empty()),
                       "ModelCheckpoint: keep_best ", options_.keep_best,
                       options_.keep_best < 1 ? ": expected 1 or more" : ": expected a monitor, got none");
}

void ModelCheckpoint::guard_folder(const Trainer& trainer) {
  run_together(trainer.options().world, [&] {
    if (!options_.guards_folder || trainer.rank() != 0) return;
    lock_.reset();
    lock_.emplace(options_.folder);
    const bool is_own = !trainer.options().resume.empty() || !last_.empty();
    const std::vector<int64_t> there = dist::list_checkpoints(options_.folder);
    require<ConfigError>(is_own || there.empty(), "ModelCheckpoint: ", options_.folder,
                         ": expected a folder without checkpoints for a new run, found them up to ",
                         there.empty() ? "" : dist::step_name(there.back()),
                         ": resume that run, or give another folder");
  });
}

void ModelCheckpoint::on_fit_start(Trainer& trainer, Task&) {
  guard_folder(trainer);
  dist::World* const world = trainer.options().world;
  background_.reset();
  if (options_.in_background && world)
    background_ = std::make_unique<dist::BackgroundSave>(world->shared_communicator());
  saved_step_ = trainer.options().resume.empty() ? -1 : trainer.global_step();
  validated_step_ = -1;
  is_due_ = was_interrupted_ = false;
  lacks_validation_ = trainer.is_validation_due();
}

void ModelCheckpoint::on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) {
  const int64_t step = trainer.global_step(), every = options_.every_steps;
  if (every == 0 || step == saved_step_ || step % every != 0 || !trainer.is_at_step_end()) return;
  // After the validation of this step, and what the end of an epoch logs.
  if (is_epoch_end(trainer) || trainer.validation_follows())
    is_due_ = true;
  else
    save(trainer);
}

void ModelCheckpoint::on_validation_end(Trainer& trainer, Task&) {
  if (trainer.is_sanity_checking()) return;
  validated_step_ = trainer.global_step();
  const auto found = trainer.logged().find(options_.monitor);
  const bool is_best = found != trainer.logged().end() && is_better(found->second, best_, options_.best);
  is_due_ |= lacks_value(trainer) || (options_.save_best && is_best);
  if (is_due_ && !is_epoch_end(trainer)) save(trainer);
}

void ModelCheckpoint::on_train_epoch_end(Trainer& trainer, Task&) {
  const bool is_due = std::exchange(is_due_, false) || options_.every_steps == 0 || lacks_value(trainer);
  const bool is_new = trainer.global_step() != saved_step_ || (lacks_validation_ && has_value(trainer));
  if (is_due && trainer.is_at_step_end() && is_new) save(trainer);
  const bool could_log = validated_step_ >= 0 || !trainer.has_validation();
  if (!options_.monitor.empty() && could_log && trainer.interrupted() == 0 && trainer.is_last_batch())
    monitored_value("ModelCheckpoint", options_.monitor, trainer.logged());  // throws for a name never logged
}

void ModelCheckpoint::on_train_end(Trainer& trainer, Task&) {
  const bool is_interrupted_since = trainer.interrupted() != 0 && !was_interrupted_;
  const bool is_new = trainer.global_step() != saved_step_ || is_due_ || is_interrupted_since ||
                      (lacks_validation_ && has_value(trainer));
  if (is_new && trainer.is_at_step_end()) save(trainer);
  if (background_) background_->wait();
}

void ModelCheckpoint::on_fit_end(Trainer&, Task&) {
  lock_.reset();
}

void ModelCheckpoint::on_exception(Trainer&, Task&, const std::exception&) {
  lock_.reset();
}

/// Whether the monitored value is that of this step.
bool ModelCheckpoint::has_value(const Trainer& trainer) const {
  return !options_.monitor.empty() && trainer.logged_step(options_.monitor) == trainer.global_step();
}

/// Whether the checkpoint of this step, which is due without `save_best` too, lacks the value that there is
/// now, since a signal ended the run before its validation.
bool ModelCheckpoint::lacks_value(const Trainer& trainer) const {
  const int64_t every = options_.every_steps;
  const bool is_step = every > 0 ? trainer.global_step() % every == 0 : trainer.is_last_batch();
  return lacks_validation_ && is_step && has_value(trainer);
}

std::string ModelCheckpoint::state_key() const {
  return options_.monitor.empty() ? "model_checkpoint" : "model_checkpoint." + options_.monitor;
}

void ModelCheckpoint::save(Trainer& trainer) {
  SaveExtras extras{.run = options_.run, .model = options_.model, .keep = options_.keep};
  extras.keep_best = options_.keep_best;
  extras.background = background_.get();
  was_interrupted_ = trainer.interrupted() != 0;
  is_due_ = lacks_validation_ = false;
  if (has_value(trainer) && (trainer.interrupted() == 0 || is_regular(trainer, options_.every_steps))) {
    const double value = trainer.logged().at(options_.monitor);
    extras.validation_loss = options_.best == Best::lowest ? value : -value;  // the lowest one is the best
    if (is_better(value, best_, options_.best)) {
      best_ = value;
      best_checkpoint_ = options_.folder + "/" + trainer.checkpoint_name();
    }
  }
  saved_step_ = trainer.global_step();
  last_ = trainer.save_checkpoint(options_.folder, std::move(extras));
}

std::map<std::string, std::string> ModelCheckpoint::state() const {
  if (options_.monitor.empty()) return {};
  return {{"best", to_state(best_)}, {"best_checkpoint", best_checkpoint_}};
}

void ModelCheckpoint::load_state(const std::map<std::string, std::string>& state) {
  if (const auto found = state.find("best"); found != state.end()) best_ = from_state(found->second);
  if (const auto found = state.find("best_checkpoint"); found != state.end())
    best_checkpoint_ = found->second;
}

}  // namespace tessera::training
