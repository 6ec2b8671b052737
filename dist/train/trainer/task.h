#pragma once  // not in tessera.h

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "data/batch.h"
#include "dist/pipeline/run/pipeline.h"
#include "dist/train/manual/part.h"
#include "dist/train/trainer/logged_values.h"
#include "nn/layer.h"

namespace tessera::training {

class Trainer;

/// What a model is trained for: the losses of batches and the optimizer. A task derives from TaskOf and holds
/// the model, or is the model; the Trainer has the loops.
class Task {
 public:
  virtual ~Task() = default;

  /// The module of the parameters that are trained.
  virtual nn::Module& module() = 0;
  /// The mean loss of a batch. `index` counts the epoch's batches. Required by `fit`.
  virtual Variable training_step(const data::Batch& batch, int64_t index);
  /// Logs what is of interest of a batch; the module is in evaluation and nothing is recorded.
  /// @{
  virtual void validation_step(const data::Batch& batch, int64_t index);
  virtual void test_step(const data::Batch& batch, int64_t index);
  /// @}
  /// For training in stages (`TrainerOptions::stages`), which calls these instead of `training_step` and
  /// the steps of validation, test and prediction; those after the fit too, which run through its stages.
  /// @{
  /// The model as a list of layers with its loss. By default a ConfigError: a model that states no layers
  /// cannot be cut.
  virtual nn::LayeredModel layered_model();
  /// What the first layer and the loss take from a batch: by default x and y.
  virtual dist::MicroBatch stage_batch(const data::Batch& batch);
  /// Gets the mean loss of a step, on every rank: by default logs "loss" of steps.
  virtual void stage_loss(double loss);
  /// Gets what each rank of the pipeline did in a step, on every rank: by default logs "stage0/idle", ...,
  /// the share of the step in which it waited, of steps.
  virtual void stage_metrics(const std::vector<dist::StageMetrics>& ranks);
  /// Gets the mean loss of a batch of validation on all ranks: by default logs "val_loss".
  virtual void stage_validation_loss(double loss, const data::Batch& batch);
  /// Gets that of a batch of a test: by default logs "test_loss".
  virtual void stage_test_loss(double loss, const data::Batch& batch);
  /// The results for a batch, of the model's results (`nn::LayeredModel::result`), on the ranks of the last
  /// stage: by default the one result. Throws ShapeError where there are several.
  virtual Tensor stage_prediction(const nn::LayerValues& results, const data::Batch& batch);
  /// @}
  /// The results for a batch.
  virtual Tensor predict_step(const data::Batch& batch, int64_t index);
  /// The optimizer of these parameters. Required by `fit`, unless the configuration of a DeepSpeedStrategy
  /// names one; by default there is none.
  virtual OptimizerSetup configure_optimizers(const ParameterList& parameters);

  /// False: `training_step` takes the steps itself, by `trainer().manual()`, and what it returns is not used.
  /// Then `configure_parts` gives the parts and their optimizers; by default there is one part, "model", the
  /// module with the optimizer of `configure_optimizers`.
  /// @{
  virtual bool automatic_optimization() const { return true; }
  virtual std::vector<Part> configure_parts();
  /// @}

  /// Records a value of the current batch under a name; monitors and callbacks see it. The value of an epoch
  /// is that over all batches and all ranks: a mean is weighted by samples. All ranks log the same names in
  /// an epoch.
  /// @{
  void log(const std::string& name, double value, LogOptions options = {});
  void log(const std::string& name, const Tensor& value, LogOptions options = {});
  void log(const std::string& name, const Variable& value, LogOptions options = {}) {
    log(name, value.value(), options);
  }
  /// @}
  /// The trainer that runs the task. Throws ConfigError outside of one.
  Trainer& trainer() const;

 private:
  friend class Trainer;
  Trainer* trainer_ = nullptr;
  std::shared_ptr<dist::Pipeline> pipeline_;  // of the fit that cut the module; else null
  DType stages_dtype_ = f32;                  // in which that fit computed
};

/// Makes a task, where each rank or each trial has its own.
using TaskMaker = std::function<std::unique_ptr<Task>()>;

/// A module that is its own task:
///
///     struct Classifier : training::TaskOf<Classifier> {
///       nn::Linear& out = add<nn::Linear>("out", {.in = 2, .out = 3});
///       Variable forward(const Variable& x) { return out(x); }
///       Variable training_step(const data::Batch& batch, int64_t) override {
///         return nn::cross_entropy((*this)(batch.x), batch.y);
///       }
///       training::OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
///         return {std::make_unique<optim::AdamW>(parameters, 1e-3)};
///       }
///     };
template <class Self>
struct TaskOf : nn::Layer<Self>, Task {
  nn::Module& module() override { return *this; }
};

}  // namespace tessera::training
