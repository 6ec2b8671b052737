// Validation, test and prediction of a Trainer.
#include <algorithm>
#include <utility>

#include "autograd/autocast/autocast.h"
#include "autograd/grad_mode.h"
#include "dist/train/manual/learning_rates.h"
#include "dist/train/trainer/stage_batches.h"
#include "nn/sequence/hold.h"
#include "tensor/error.h"
#include "tensor/packed_weight_scope.h"
#include "tensor/random/random_context.h"

namespace tessera::training {
namespace {

/// The loader of a stage. Throws ConfigError where the data has none.
LoaderSpec loader_of(DataModule& data, Stage stage) {
  std::optional<LoaderSpec> spec = stage == Stage::validate ? data.val_dataloader()
                                   : stage == Stage::test   ? data.test_dataloader()
                                                            : data.predict_dataloader();
  const char* const name = stage == Stage::validate ? "validate" : stage == Stage::test ? "test" : "predict";
  const char* const loader = stage == Stage::validate ? "val" : stage == Stage::test ? "test" : "predict";
  require<ConfigError>(spec.has_value(), "Trainer::", name, ": expected a loader (DataModule::", loader,
                       "_dataloader), got none");
  return std::move(*spec);
}

/// A module in evaluation; the destructor restores its mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(nn::Module& module) : module_(module), was_training_(module.is_training()) {
    module.eval();
  }
  ~EvaluationMode() { module_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  nn::Module& module_;
  bool was_training_;
};

}  // namespace

Device Trainer::device() const {
  return options_.device.value_or(options_.world ? options_.world->device() : cpu());
}

/// The dtype in which a task's module computes: that of its rounded parameters after a run in mixed
/// precision. In stages it is that of the fit: a stage may have no parameters.
DType Trainer::compute_dtype_of(Task& task) {
  if (task.pipeline_) return task.stages_dtype_;
  DType dtype = f32;
  task.module().for_each_entry([&](const std::string&, const nn::Module::Entry& entry) {
    if (!entry.is_buffer && entry.master.defined()) dtype = entry.variable.dtype();
  });
  return dtype;
}

/// What evaluates a model that is cut into stages: the pipeline of the fit, also after it. Null for a model
/// that this rank holds whole. Throws ConfigError for one that no fit has cut, and where the stages are not
/// those of this trainer.
dist::Pipeline* Trainer::pipeline_of(Task& task, const char* caller) {
  if (is_fitting()) return engine().pipeline();
  const std::string kind = task.module().kind();
  if (!task.pipeline_) {
    require<ConfigError>(nn::names_held_elsewhere(task.module()).empty(), "Trainer::", caller, ": ", kind,
                         " is cut into stages, of which this rank holds its own alone, and no fit of this "
                         "task did that: expected a whole model, or one that `fit` has cut");
    return nullptr;
  }
  require<ConfigError>(options_.world && options_.stages.stages == task.pipeline_->ranks(),
                       "Trainer::", caller, ": ", kind, " is cut into ", task.pipeline_->ranks(),
                       " stages: expected a trainer with as many (TrainerOptions::stages) and the ranks of "
                       "the fit, got ",
                       options_.stages.stages);
  return task.pipeline_.get();
}

/// The loss of all ranks' samples; padding has no weight.
void Trainer::evaluate_in_stages(dist::Pipeline& pipeline, Task& task, const data::Batch& batch,
                                 Stage stage) {
  dist::MicroBatch micro = task.stage_batch(batch);
  micro.samples = batch.samples;
  const auto samples = static_cast<double>(batch.unpadded_size());
  if (samples == 0 || !micro.weight) micro.weight = samples;
  const double loss = pipeline.evaluate({&micro, 1});
  stage == Stage::test ? task.stage_test_loss(loss, batch) : task.stage_validation_loss(loss, batch);
}

/// The results for a batch on the ranks of the last stage; elsewhere nothing.
std::optional<Tensor> Trainer::predict_in_stages(dist::Pipeline& pipeline, Task& task,
                                                 const data::Batch& batch) {
  dist::MicroBatch micro = task.stage_batch(batch);
  micro.samples = batch.samples;
  const std::vector<nn::LayerValues> results = pipeline.forward({&micro, 1});
  if (!pipeline.is_last()) return std::nullopt;
  return task.stage_prediction(results.at(0), batch);
}

/// A validation that is not periodic is there for the end of the run alone: without a stop it would not be.
std::map<std::string, double> Trainer::evaluate(Task& task, const StageBatches& batches, Stage stage,
                                                bool is_periodic) {
  const bool is_test = stage == Stage::test;
  const std::map<std::string, double> logged = logged_;
  const std::map<std::string, int64_t> logged_steps = logged_steps_;
  held_values_ = std::exchange(values_, LoggedValues());
  training_values_ = &held_values_;
  const EvaluationMode mode(task.module());
  call([&](Callback& c) { is_test ? c.on_test_start(*this, task) : c.on_validation_start(*this, task); });
  call([&](Callback& c) {
    is_test ? c.on_test_epoch_start(*this, task) : c.on_validation_epoch_start(*this, task);
  });
  PackedWeightScope::renew();  // callbacks may have written weights through pointers
  {
    const NoGrad no_grad;
    dist::Pipeline* const pipeline = pipeline_of(task, is_test ? "test" : "validate");
    const DType dtype = is_fitting() ? engine().compute_dtype() : compute_dtype_of(task);
    StageBatches::Pass pass = batches.epoch(0, 0);
    const bool is_limited = is_sanity_checking_ && options_.num_sanity_val_steps >= 0;
    for (int64_t index = 0; !is_limited || index < options_.num_sanity_val_steps; ++index) {
      const std::optional<MicroBatch> taken = pass.next();
      if (!taken) break;
      if (is_fitting() && is_at_step_end()) receive_signals();  // within a step nothing can be saved
      if (interrupted_ != 0) {
        is_validation_due_ = true;
        values_ = std::move(held_values_);
        training_values_ = &values_;
        logged_ = logged;  // the values of some batches are none of the validation
        logged_steps_ = logged_steps;
        return {};
      }
      const data::Batch batch = prepared(taken->batch, device(), batches.targets()).without_padding();
      batch_weight_ = static_cast<double>(batch.unpadded_size());
      call([&](Callback& c) {
        is_test ? c.on_test_batch_start(*this, task, batch, index)
                : c.on_validation_batch_start(*this, task, batch, index);
      });
      {
        const AutocastScope autocast(dtype);
        if (pipeline)
          evaluate_in_stages(*pipeline, task, batch, stage);
        else
          is_test ? task.test_step(batch, index) : task.validation_step(batch, index);
      }
      call([&](Callback& c) {
        is_test ? c.on_test_batch_end(*this, task, batch, index)
                : c.on_validation_batch_end(*this, task, batch, index);
      });
    }
  }
  const std::map<std::string, double> values = values_.reduce(ranks());
  for (const auto& [name, value] : values) {
    set_logged(name, value, global_step());
    if (!is_sanity_checking_) reports_.add(global_step(), name, value);  // outside of a fit nothing is begun
  }
  if (is_fitting() && is_periodic) rates().end_validation(values, held_values_.newest());
  call([&](Callback& c) {
    is_test ? c.on_test_epoch_end(*this, task) : c.on_validation_epoch_end(*this, task);
  });
  call([&](Callback& c) { is_test ? c.on_test_end(*this, task) : c.on_validation_end(*this, task); });
  values_ = std::move(held_values_);
  training_values_ = &values_;
  if (is_fitting()) validated_step_ = global_step();
  return values;
}

/// The run goes on as if this had not been: as at its beginning but for an exception, `stop` or a signal.
void Trainer::check_sanity(Task& task, const StageBatches& validation) {
  if (options_.num_sanity_val_steps == 0 || options_.fast_dev_run) return;
  const RandomContextScope random(random_context());
  is_sanity_checking_ = true;
  call([&](Callback& c) { c.on_sanity_check_start(*this, task); });
  evaluate(task, validation, Stage::validate, false);
  if (interrupted_ == 0) call([&](Callback& c) { c.on_sanity_check_end(*this, task); });
  is_sanity_checking_ = is_validation_due_ = false;
  validated_step_ = -1;
  logged_.clear();
  logged_steps_.clear();
}

std::map<std::string, double> Trainer::evaluate_alone(Task& task, DataModule& data, Stage stage) {
  std::map<std::string, double> values;
  run(task, [&] {
    pipeline_of(task, stage == Stage::test ? "test" : "validate");  // throws before anything begins
    start_stage(data, stage);
    std::optional<PackedWeightScope> packed_weights;
    if (keeps_packed_weights(task)) packed_weights.emplace();
    values = evaluate(task, StageBatches(loader_of(data, stage), options_, stage), stage);
    reports_.add_after_run(values);
  });
  return values;
}

std::map<std::string, double> Trainer::validate(Task& task, DataModule& data) {
  return evaluate_alone(task, data, Stage::validate);
}

std::map<std::string, double> Trainer::test(Task& task, DataModule& data) {
  return evaluate_alone(task, data, Stage::test);
}

std::vector<Tensor> Trainer::predict(Task& task, DataModule& data) {
  std::vector<Tensor> results;
  run(task, [&] {
    dist::Pipeline* const pipeline = pipeline_of(task, "predict");
    start_stage(data, Stage::predict);
    const StageBatches batches(loader_of(data, Stage::predict), options_, Stage::predict);
    const EvaluationMode mode(task.module());
    call([&](Callback& c) { c.on_predict_start(*this, task); });
    call([&](Callback& c) { c.on_predict_epoch_start(*this, task); });
    const NoGrad no_grad;
    std::optional<PackedWeightScope> packed_weights;
    if (keeps_packed_weights(task)) packed_weights.emplace();
    StageBatches::Pass pass = batches.epoch(0, 0);
    const DType dtype = compute_dtype_of(task);
    for (int64_t index = 0; const std::optional<MicroBatch> taken = pass.next(); ++index) {
      const data::Batch batch = prepared(taken->batch, device(), batches.targets()).without_padding();
      call([&](Callback& c) { c.on_predict_batch_start(*this, task, batch, index); });
      const std::optional<Tensor> result = [&] {
        const AutocastScope autocast(dtype);
        return pipeline ? predict_in_stages(*pipeline, task, batch) : task.predict_step(batch, index);
      }();
      const bool has_samples = !taken->is_after_end && batch.unpadded_size() > 0;
      if (result && has_samples)
        results.push_back(is_floating(result->dtype()) && dtype != f32 ? result->to(f32) : *result);
      call([&](Callback& c) { c.on_predict_batch_end(*this, task, batch, index); });
    }
    call([&](Callback& c) { c.on_predict_epoch_end(*this, task); });
    call([&](Callback& c) { c.on_predict_end(*this, task); });
  });
  return results;
}

}  // namespace tessera::training
