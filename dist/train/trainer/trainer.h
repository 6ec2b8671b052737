#pragma once  // not in tessera.h

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/fsdp/policy.h"
#include "dist/launch/world.h"
#include "dist/train/config/stage_options.h"
#include "dist/train/config/training_config.h"
#include "dist/train/engine/engine_core.h"
#include "dist/train/manual/manual_optimization.h"
#include "dist/train/plan/step_plan.h"
#include "dist/train/trainer/callback.h"
#include "dist/train/trainer/data_module.h"
#include "dist/train/trainer/logged_values.h"
#include "dist/train/trainer/monitor_reports.h"
#include "dist/train/trainer/strategy_choice.h"
#include "dist/train/trainer/task.h"

namespace tessera::training {

class LearningRates;
class StageBatches;

/// Options of a Trainer.
struct TrainerOptions {
  int64_t max_epochs = -1;  ///< passes over the training data; -1: no limit
  int64_t max_steps = -1;   ///< steps of the optimizer; -1: no limit
  /// What is sharded over ranks: a name, such as "ddp", "fsdp", "deepspeed_stage_2" and those of
  /// dist::Strategy, or a ShardingStrategy or DeepSpeedStrategy with its options.
  StrategyChoice strategy = "auto";
  PrecisionMode precision = PrecisionMode::f32;  ///< of forward and backward
  optim::GradScalerOptions scaler = {};          ///< of f16
  int64_t accumulate = 1;                        ///< micro-batches of a step
  double gradient_clip = 0;                      ///< largest norm of all gradients; 0: no clipping
  int64_t validate_every = 0;                    ///< steps between validations; 0: at the end of each epoch
  /// Validates after the last step too, where `validate_every` does not divide it.
  bool validate_at_end = false;
  /// Batches of validation before the first step of a new run, at most; -1: all; Lightning's default is 2.
  /// They show early that validation works: what they log is thrown away, and training has the same bits.
  /// Not with `fast_dev_run`.
  int64_t num_sanity_val_steps = 0;
  /// As in TrainingConfig.
  /// @{
  std::string activation_checkpoint = {}, activation_checkpoint_keep = {};
  /// @}
  std::string activation_offload = {};   ///< as in TrainingConfig
  int64_t activation_offload_bytes = 0;  ///< as in TrainingConfig
  /// On a CPU weights stay packed between the micro-batches of a step, and in evaluations, where ranks do not
  /// shard them and without stages (`PackedWeightScope`): faster products of few rows, for up to twice the
  /// weights' bytes. `plan` counts the most that they can take.
  bool keep_packed_weights = false;
  uint64_t seed = 42;  ///< of first weights, orders and dropout
  /// A checkpoint's folder, or a run's (its latest): `fit` continues it with the same bits, on any number of
  /// ranks with the same train_batch_size. "": a new run.
  std::string resume = {};
  /// A checkpoint's folder, or a run's (its latest): `fit` begins a new run with its weights. Optimizer,
  /// steps and options are those of the new run. Not with `resume`.
  std::string init_from = {};
  /// Called in this order at each point.
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  /// Write what the task logs (monitors/README.md), on rank 0 alone; those of other ranks stay unused.
  std::vector<std::shared_ptr<Monitor>> monitors = {};
  int64_t log_every = 50;  ///< steps between values of a step in monitors (LogOptions::on_step); 0: none
  /// Name, tags and options of the run for monitors, beside the trainer's own options.
  RunDescription run = {};
  dist::UnitPolicy units = {};  ///< of sharding
  /// Training in stages of a pipeline, of a task that states its layers (`Task::layered_model`). `accumulate`
  /// is then the number of micro-batches that a step's schedule has.
  StageOptions stages = {};
  dist::World* world = nullptr;       ///< all ranks; null: this process is the only one
  std::optional<Device> device = {};  ///< what computes; nothing: the ranks' device, or the CPU
  /// "auto": `device` alone says what computes. "cpu", or "gpu" and "cuda", which are the same: the ranks'
  /// device, or the first such device of a process without ranks, has to be of that kind, and so has
  /// `device`.
  std::string accelerator = "auto";
  Logger log = {};  ///< gets what the engine reports (`EngineOptions::log`)
  /// The number of ranks. `training::fit` starts as many; a Trainer requires its world to have them. 0: those
  /// that there are.
  int devices = 0;
  /// Signals, such as SIGINT and SIGTERM, that end `fit` after the current step: all ranks agree on the step,
  /// callbacks are called as at any end, but for on_train_epoch_end of an epoch that the resumed run goes on
  /// with, and `interrupted` gives the signal. Empty: signals keep their effect.
  std::vector<int> signals = {};
  /// Batches of each epoch's training, validation, test and prediction, at most; -1: all. A batch of a
  /// `LoaderSpec::source` in training is that of a step.
  /// @{
  int64_t limit_train_batches = -1, limit_val_batches = -1, limit_test_batches = -1,
          limit_predict_batches = -1;
  /// @}
  bool fast_dev_run = false;  ///< one batch of each kind, one epoch: does the program run at all
  int64_t overfit_batches =
      0;  ///< train and validate on the first so many batches, in the same order; 0: on all
};

/// The loops of a run, for any task:
///
///     training::Trainer trainer({.max_epochs = 5, .strategy = "full_shard", .world = &world});
///     trainer.fit(task, data);
class Trainer {
 public:
  /// Throws ConfigError, naming the option, for values out of range or that contradict each other.
  explicit Trainer(TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains until max_epochs, max_steps, `stop` or a signal. Throws ConfigError for a task without a training
  /// step or an optimizer, and for data without a training loader; then nothing has started. What task, data
  /// and callbacks throw leaves it, after on_exception.
  void fit(Task& task, DataModule& data);
  /// One pass over the data, with `validation_step` or `test_step`; returns what the task logged, over all
  /// ranks. A task that a fit has cut into stages is evaluated through its pipeline, with
  /// `stage_validation_loss` or `stage_test_loss`, by a trainer with the same stages and ranks; ConfigError
  /// for another one. All ranks call it together.
  /// @{
  std::map<std::string, double> validate(Task& task, DataModule& data);
  std::map<std::string, double> test(Task& task, DataModule& data);
  /// @}
  /// What a step of `fit` costs: two steps of it traced on meta, of a task of its own that `make_task`
  /// returns; nothing is computed or trained, and no callback is called. The batches have the shapes of the
  /// first one of the training loader; those that workers make ahead are not counted. Over ranks model state
  /// and communication are those of the strategy's formula, of the first rank; in stages the step is
  /// simulated (`dist::simulate_step`), and the plan is this rank's. All ranks call it together.
  /// Throws ConfigError for a task that has values, and as `fit`; NotBuiltError for manual optimization and
  /// for fields that are lists.
  StepPlan plan(const TaskMaker& make_task, DataModule& data);
  /// The largest micro-batch of a rank with a step that takes at most so many bytes at its peak by `plan`:
  /// powers of two, then bisection. No more samples are tried than a rank's share of a dataset. Throws
  /// ConfigError where one sample does not fit, and as `plan`.
  int64_t tune(const TaskMaker& make_task, DataModule& data, int64_t memory_limit_bytes);
  /// The results of `predict_step`, one for each of this rank's batches, without rows of padding; f32 where
  /// they are bf16 or f16. In stages, as `test`: those of `stage_prediction` on the ranks of the last stage;
  /// elsewhere none.
  std::vector<Tensor> predict(Task& task, DataModule& data);

  /// Ends the training after the current step. All ranks must call it in the same batch.
  void stop() { is_stopped_ = true; }
  /// Whether `stop` was called in this fit.
  bool is_stopped() const { return is_stopped_; }

  /// The signal that ended the newest fit, or is about to; 0: none. A validation that was due then, or under
  /// way, is left out; the run that resumes from a checkpoint of that step begins with it.
  int interrupted() const { return interrupted_; }
  /// Whether a signal left out the validation of the current step, with which the resumed run begins: also
  /// of a resumed run, until it begins that validation.
  bool is_validation_due() const { return is_validation_due_; }
  /// Whether a validation before the first step runs (`TrainerOptions::num_sanity_val_steps`).
  bool is_sanity_checking() const { return is_sanity_checking_; }

  /// The epoch, from 0, and the steps of the optimizer that are done.
  /// @{
  int64_t current_epoch() const { return epoch_; }
  int64_t global_step() const { return micro_steps() / options_.accumulate; }
  /// @}
  /// Whether the newest batch ended a step of the optimizer, and whether it is the last one of its epoch.
  /// @{
  bool is_at_step_end() const;
  bool is_last_batch() const { return is_last_batch_; }
  /// @}
  /// Whether the run ends with the newest batch, a signal aside: then its epoch ends too, within its batches.
  bool is_run_end() const { return is_at_step_end() && (is_stopped_ || is_last_step() || is_at_end()); }
  /// Whether a validation follows the newest batch, before any other batch.
  bool validation_follows() const;
  /// Saves the run at the end of a step, with the callbacks' states. All ranks call it together. Returns the
  /// checkpoint's folder. Throws CheckpointError, and ConfigError outside of a fit or within a step.
  std::string save_checkpoint(const std::string& folder, SaveExtras extras = {});
  /// Of a resumed run with another end than the run had: both ends, and whether the schedule was stretched to
  /// the new one or held; else "".
  const std::string& resume_note() const { return resume_note_; }
  /// Of a run that was resumed where other kernels multiply matrices (`matmul_kernels`) than did until its
  /// checkpoint: both; else "".
  const std::string& products_note() const { return products_note_; }
  /// The name of the folder of a checkpoint of this step.
  std::string checkpoint_name() const;
  /// The number of this rank and of all ranks.
  /// @{
  int rank() const { return options_.world ? options_.world->rank() : 0; }
  int world_size() const { return options_.world ? options_.world->size() : 1; }
  /// @}
  /// Of the ranks that train batches of their own, all or those with the same stages: this one's number, and
  /// how many there are.
  /// @{
  int data_rank() const { return training::data_rank(options_.stages, rank(), world_size()); }
  int data_ranks() const { return training::data_ranks(options_.stages, world_size()); }
  /// @}
  /// The newest value of each logged name: of a batch as it is logged, of an epoch at its end, over all
  /// ranks. With `LogOptions::on_step` there is also the value that monitors get of a step, over its
  /// micro-batches and all ranks, under the name that monitors have for it.
  const std::map<std::string, double>& logged() const { return logged_; }
  /// The step of the newest value of a name, which for a value of a training batch is the step that the batch
  /// is part of; -1: none in this fit.
  int64_t logged_step(const std::string& name) const {
    const auto found = logged_steps_.find(name);
    return found == logged_steps_.end() ? -1 : found->second;
  }
  /// Whether the fit has validations.
  bool has_validation() const { return has_validation_; }
  /// Gives the monitors a value of the current step, and callbacks see it in `logged`; of a fit. A callback
  /// calls it on every rank; monitors get that of rank 0.
  void report(const std::string& name, double value);
  /// Gives the monitors a text of the current step: that of rank 0. Neither gives them anything of a sanity
  /// check.
  void report_text(const std::string& name, const std::string& text) {
    if (!is_sanity_checking_) reports_.add_text(global_step(), name, text);
  }
  /// The engine of the fit that runs; in manual optimization that of the part that is optimized. Throws
  /// ConfigError outside of a fit.
  EngineCore& engine();
  /// The steps of a task without automatic optimization. Throws ConfigError outside of a fit of such a task.
  ManualOptimization& manual();
  /// As given to the constructor, with what a DeepSpeedStrategy's configuration gives in place of
  /// `precision`, `gradient_clip` and, from the beginning of a fit, `accumulate`.
  const TrainerOptions& options() const { return options_; }

 private:
  friend class Task;

  void run(Task& task, const std::function<void()>& body);
  template <class Point>
  void call(Point point) {
    for (const auto& callback : options_.callbacks) point(*callback);
  }
  bool keeps_packed_weights(Task& task);
  void check_sanity(Task& task, const StageBatches& validation);
  void make_up_validation(Task& task, const StageBatches& training, const StageBatches* validation);
  void train_epoch(Task& task, const StageBatches& training, const StageBatches* validation);
  void end_epoch(Task& task, const StageBatches* validation, bool is_periodic);
  void optimize(Task& task, const data::Batch& batch, double share, int64_t index);
  static DType compute_dtype_of(Task& task);
  dist::Pipeline* pipeline_of(Task& task, const char* caller);
  static void evaluate_in_stages(dist::Pipeline& pipeline, Task& task, const data::Batch& batch, Stage stage);
  static std::optional<Tensor> predict_in_stages(dist::Pipeline& pipeline, Task& task,
                                                 const data::Batch& batch);
  void optimize_in_stages(Task& task, const data::Batch& batch, double share);
  void train_micro_batch(Task& task, const data::Batch& batch, double share, int64_t index);
  std::map<std::string, double> evaluate(Task& task, const StageBatches& batches, Stage stage,
                                         bool is_periodic = true);
  std::map<std::string, double> evaluate_alone(Task& task, DataModule& data, Stage stage);
  TrainingConfig given_config() const;
  void set_accumulate(const LoaderSpec& training);
  TrainingConfig config_of(const StageBatches& training);
  OptimizerSetup optimizer_of(Task& task, const ParameterList& parameters, const TrainingConfig& config);
  void make_engine(Task& task, const TrainingConfig& config, bool is_on_meta = false);
  void start_stage(DataModule& data, Stage stage);
  void tear_down(Task& task) noexcept;
  Device device() const;
  LearningRates& rates();
  bool is_fitting() const { return engine_ || manual_; }
  int64_t micro_steps() const {
    return engine_ ? engine_->micro_steps() : manual_ ? manual_->micro_steps() : 0;
  }
  dist::Communicator* ranks() const { return options_.world ? &options_.world->communicator() : nullptr; }
  int64_t max_epochs() const { return options_.fast_dev_run ? 1 : options_.max_epochs; }
  bool is_last_step() const { return options_.max_steps >= 0 && global_step() >= options_.max_steps; }
  bool is_over() const;
  bool is_at_end() const { return end_ >= 0 && micro_steps() >= end_; }
  void set_end(const StageBatches& training);
  void set_logged(const std::string& name, double value, int64_t step) {
    logged_[name] = value;
    logged_steps_[name] = step;
  }
  void receive_signals();
  bool is_validation_step() const;
  bool is_validation_at_end() const;
  bool is_validation_point() const;
  void init_weights();
  void save_end(std::map<std::string, std::string>& saved);
  std::string describe_new_end(const std::map<std::string, std::string>& saved);
  struct PlanInput;
  PlanInput plan_input(const TaskMaker& make_task, DataModule& data, const char* caller);
  StepPlan plan_step(const TaskMaker& make_task, const PlanInput& input, int64_t size);
  void trace_steps(Task& task, const PlanInput& input, TrainingConfig config, const MemoryAccount& account,
                   StepPlan& plan);
  void plan_stages(Task& task, const PlanInput& input, const TrainingConfig& config, StepPlan& plan);
  void resume(Task& task);
  void add_logged(const std::string& name, double value, const LogOptions& options);
  void report_step();

  TrainerOptions options_;
  int64_t given_accumulate_;                                       // before a strategy's configuration
  std::shared_ptr<const deepspeed::Configuration> configuration_;  // of a DeepSpeedStrategy, else null
  std::unique_ptr<EngineCore> engine_;                             // of automatic optimization
  std::unique_ptr<ManualOptimization> manual_;                     // else
  std::unique_ptr<LearningRates> rates_;                           // of `engine_`
  Task* task_ = nullptr;
  std::optional<Stage> stage_;                // of the run, since the callbacks' setup
  LoggedValues values_;                       // of the epoch that runs, or of an evaluation
  LoggedValues held_values_;                  // of the epoch, during an evaluation within it
  LoggedValues* training_values_ = &values_;  // the one of the two that is of the epoch
  LoggedValues step_values_;                  // of the step that runs, for monitors
  MonitorReports reports_;
  std::map<std::string, double> logged_;         // newest
  std::map<std::string, int64_t> logged_steps_;  // of each of them
  int64_t end_ = -1;  // micro-batches of the run; -1: max_epochs does not limit them
  int64_t epoch_ = 0;
  double batch_weight_ = 0;  // samples of the current batch
  bool is_stopped_ = false, is_last_batch_ = false;
  bool has_validation_ = false;
  bool is_validation_due_ = false;  // of this step, left out because of a signal
  bool is_sanity_checking_ = false;
  int64_t validated_step_ = -1;  // the newest one of the fit
  int interrupted_ = 0;
  std::string resume_note_, products_note_;
};

}  // namespace tessera::training
