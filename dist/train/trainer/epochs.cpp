// The epochs of training of a Trainer: batches, steps, and what follows them.
#include <optional>
#include <utility>

#include "autograd/autocast/autocast.h"
#include "dist/train/manual/learning_rates.h"
#include "dist/train/trainer/stage_batches.h"
#include "tensor/error.h"
#include "tensor/packed_weight_scope.h"
#include "tensor/profile/span.h"
#include "tensor/random/random_context.h"

namespace tessera::training {

/// The validation that a signal left out at the step of the checkpoint. After an epoch's last batch, and
/// after the run's, it is a part of that epoch, which then has to end here.
void Trainer::make_up_validation(Task& task, const StageBatches& training, const StageBatches* validation) {
  if (!std::exchange(is_validation_due_, false)) return;
  const bool ends_epoch = micro_steps() > 0 && micro_steps() % training.size() == 0;
  const int64_t every = options_.validate_every;
  const bool is_periodic = every > 0 ? global_step() % every == 0 : ends_epoch;
  if (!ends_epoch && !is_run_end()) {
    if (validation) evaluate(task, *validation, Stage::validate, is_periodic);
    return;
  }
  if (ends_epoch) --epoch_;
  is_last_batch_ = ends_epoch;
  rates().begin_epoch(epoch_);
  call([&](Callback& c) { c.on_train_epoch_start(*this, task); });
  end_epoch(task, validation, is_periodic);
  ++epoch_;
}

void Trainer::train_epoch(Task& task, const StageBatches& training, const StageBatches* validation) {
  int64_t index = micro_steps() % training.size();
  rates().begin_epoch(epoch_);
  if (index == 0) values_.clear();  // else a run resumed in this epoch has the sums of the batches before
  call([&](Callback& c) { c.on_train_epoch_start(*this, task); });
  std::optional<PackedWeightScope> packed_weights;
  if (keeps_packed_weights(task)) packed_weights.emplace();
  StageBatches::Pass pass = training.epoch(epoch_, index);
  for (; !is_over() && index < training.size(); ++index) {
    call([&](Callback& c) { c.on_before_train_batch(*this, task); });
    const std::optional<MicroBatch> taken = pass.next();
    if (!taken) break;
    is_last_batch_ = index + 1 == training.size();
    const data::Batch batch = prepared(taken->batch, device(), training.targets()).without_padding();
    // Callbacks between steps may write weights through pointers.
    if (micro_steps() % options_.accumulate == 0) PackedWeightScope::renew();
    train_micro_batch(task, batch, taken->share, index);
    if (options_.validate_every > 0 && is_validation_step() && interrupted_ == 0)
      evaluate(task, *validation, Stage::validate);
    if (!is_last_batch_ && !is_over()) reports_.write();  // those of the epoch's end are of the same step
  }
  const bool has_ended = is_last_batch_ || is_run_end();
  if (interrupted_ != 0 && (!has_ended || is_validation_due_)) {
    reports_.write();
    return;
  }
  const bool validates = (options_.validate_every == 0 || is_validation_at_end()) && interrupted_ == 0;
  end_epoch(task, validates ? validation : nullptr, options_.validate_every == 0 && is_last_batch_);
}

/// What follows an epoch's batches: the validation, where there is one, and the calls of its end. If a signal
/// ends the validation, the epoch has not ended: the resumed run ends it.
void Trainer::end_epoch(Task& task, const StageBatches* validation, bool is_periodic) {
  const std::map<std::string, double> epoch = values_.reduce(ranks());
  for (const auto& [name, value] : epoch) reports_.add(global_step(), values_.epoch_name(name), value);
  if (validation) evaluate(task, *validation, Stage::validate, is_periodic);
  if (is_validation_due_) {
    for (const auto& [name, value] : epoch) reports_.remove(values_.epoch_name(name));
    reports_.write();
    return;
  }
  for (const auto& [name, value] : epoch) set_logged(name, value, global_step());
  call([&](Callback& c) { c.on_train_epoch_end(*this, task); });
  reports_.write();
}

/// Forward, backward and step of a micro-batch.
void Trainer::optimize(Task& task, const data::Batch& batch, double share, int64_t index) {
  engine_->begin_micro_batch();
  const Variable loss = [&] {
    const SpanScope span(SpanKind::phase, "forward");
    const ForwardScope scope(*engine_);
    return task.training_step(batch, index);
  }();
  require<ConfigError>(loss.defined(), "Task::training_step: expected the loss of the batch, got an ",
                       "undefined Variable, which is for automatic_optimization() = false");
  call([&](Callback& c) { c.on_before_backward(*this, task, loss); });
  engine_->backward(loss, share);
  call([&](Callback& c) { c.on_after_backward(*this, task); });
  if (engine_->is_gradient_accumulation_boundary())
    call([&](Callback& c) { c.on_before_optimizer_step(*this, task); });
  engine_->step();
  rates().end_step();
}

/// A micro-batch of a step in stages: the last one runs the step's schedule.
void Trainer::optimize_in_stages(Task& task, const data::Batch& batch, double share) {
  dist::MicroBatch micro = task.stage_batch(batch);
  micro.samples = batch.samples;
  micro.step = random_context().step;
  micro.weight = share;
  const std::optional<double> loss = [&] {
    const SpanScope span(SpanKind::phase, "stages");
    const ForwardScope scope(*engine_);
    return engine_->run_in_stages(std::move(micro));
  }();
  if (loss) {
    task.stage_loss(*loss);
    task.stage_metrics(engine_->pipeline()->metrics());
  }
  call([&](Callback& c) { c.on_after_backward(*this, task); });
  if (loss) call([&](Callback& c) { c.on_before_optimizer_step(*this, task); });
  engine_->step();
  rates().end_step();
}

void Trainer::train_micro_batch(Task& task, const data::Batch& batch, double share, int64_t index) {
  batch_weight_ = static_cast<double>(batch.unpadded_size());
  call([&](Callback& c) { c.on_train_batch_start(*this, task, batch, index); });
  if (manual_) {
    manual_->begin_micro_batch(share);
    const ForwardScope scope(engine());
    task.training_step(batch, index);
    manual_->end_micro_batch();
  } else if (engine_->pipeline()) {
    optimize_in_stages(task, batch, share);
  } else {
    optimize(task, batch, share, index);
  }
  if (is_last_batch_ && rates().has_monitor()) rates().end_epoch(values_.reduce(ranks()), has_validation_);
  if (is_at_step_end()) report_step();
  if (is_at_step_end()) receive_signals();
  if (interrupted_ != 0) is_validation_due_ = is_validation_point();
  call([&](Callback& c) { c.on_train_batch_end(*this, task, batch, index); });
}

}  // namespace tessera::training
