#include "dist/train/trainer/task.h"

#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"

namespace tessera::training {
namespace {

[[noreturn]] void throw_missing(const char* method, const char* caller) {
  throw ConfigError(text("Task::", method, ": expected the task to have it, since ", caller, " calls it"));
}

}  // namespace

Variable Task::training_step(const data::Batch&, int64_t) {
  throw_missing("training_step", "Trainer::fit");
}
void Task::validation_step(const data::Batch&, int64_t) {
  throw_missing("validation_step", "a validation");
}
void Task::test_step(const data::Batch&, int64_t) {
  throw_missing("test_step", "Trainer::test");
}
nn::LayeredModel Task::layered_model() {
  throw ConfigError(text("stages: ", module().kind(),
                         " states no list of layers: expected Task::layered_model, with the model's layers "
                         "(nn::LayerSpec) and its loss"));
}

dist::MicroBatch Task::stage_batch(const data::Batch& batch) {
  return {.inputs = {batch.x}, .targets = {batch.y}};
}

void Task::stage_loss(double loss) {
  log("loss", loss, {.on_step = true, .on_epoch = false});
}

void Task::stage_metrics(const std::vector<dist::StageMetrics>& ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    log(text("stage", rank, "/idle"), ranks[rank].idle(), {.on_step = true, .on_epoch = false});
}

void Task::stage_validation_loss(double loss, const data::Batch&) {
  log("val_loss", loss);
}

void Task::stage_test_loss(double loss, const data::Batch&) {
  log("test_loss", loss);
}

Tensor Task::stage_prediction(const nn::LayerValues& results, const data::Batch&) {
  require<ShapeError>(results.size() == 1, "Task::stage_prediction: expected one result of the model, got ",
                      results.size(), ": the task has to say which one is the prediction");
  return results[0].value();
}

Tensor Task::predict_step(const data::Batch&, int64_t) {
  throw_missing("predict_step", "Trainer::predict");
}
OptimizerSetup Task::configure_optimizers(const ParameterList&) {
  return {};
}

std::vector<Part> Task::configure_parts() {
  return {{"model", module(), [this](const ParameterList& parameters) {
             OptimizerSetup setup = configure_optimizers(parameters);
             if (!setup.optimizer) throw_missing("configure_optimizers", "Trainer::fit");
             return setup;
           }}};
}

void Task::log(const std::string& name, double value, LogOptions options) {
  Trainer& running = trainer();
  running.add_logged(name, value, options);
}

void Task::log(const std::string& name, const Tensor& value, LogOptions options) {
  log(name, value.is_meta() ? 0.0 : value.item(), options);  // on meta in `Trainer::plan`
}

Trainer& Task::trainer() const {
  require<ConfigError>(trainer_ != nullptr, "Task: expected a trainer that runs it, as in Trainer::fit");
  return *trainer_;
}

}  // namespace tessera::training
