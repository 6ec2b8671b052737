#pragma once  // not in tessera.h

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/autocast/autocast.h"
#include "autograd/recompute/checkpoint.h"
#include "autograd/variable.h"
#include "data/batch.h"
#include "dist/checkpoint/background_save.h"
#include "dist/checkpoint/checkpoint_meta.h"
#include "dist/fsdp/policy.h"
#include "dist/fsdp/shard.h"
#include "dist/launch/world.h"
#include "dist/pipeline/run/pipeline.h"
#include "dist/train/config/training_config.h"
#include "dist/train/log/logger.h"
#include "nn/module.h"
#include "optim/grad_scaler.h"
#include "optim/optimizer.h"
#include "optim/schedules/schedule.h"

namespace tessera::optim {
class GradientSquares;
}

namespace tessera::training {

class CheckpointedModules;

/// Makes the optimizer of parameters that may be shards.
using OptimizerMaker = std::function<std::unique_ptr<optim::Optimizer>(const ParameterList& parameters)>;

/// What an engine is made of, besides the model.
struct EngineOptions {
  TrainingConfig config = {};     ///< sizes of 0 are derived (`resolve_batch_sizes`)
  OptimizerMaker optimizer = {};  ///< required
  /// The learning rate by step of the optimizer; nothing: the optimizer's own.
  std::optional<optim::Schedule> schedule = {};
  /// All ranks; null: this process is the only one.
  dist::World* world = nullptr;
  dist::UnitPolicy units = {};  ///< of sharding
  /// What computes; nothing: the ranks' device, or the CPU. On meta the engine is a plan: the model stays
  /// without values, steps run on shapes alone, and norms are 0.
  std::optional<Device> device = {};
  /// Gets, on rank 0, what the engine reports: skipped steps as "train.engine", checkpoints as
  /// "dist.checkpoint".
  Logger log = {};
  /// Of training in stages (`TrainingConfig::stages`): the model as a list of layers with its loss, and what
  /// the first layer and the loss take from a batch, by default x and y. The model is cut, so it has no
  /// values before.
  /// @{
  nn::LayeredModel layers = {};
  std::function<dist::MicroBatch(const data::Batch&)> stage_batch = {};
  /// @}
  /// Of a module above the model, which is a unit of it and has values; null: the engine shards the model.
  dist::Sharding* sharding = nullptr;
  /// Called in each step after the update, or after loss scaling skipped it, before the gradients are
  /// removed; `global_steps` and `skipped_steps` count the step.
  std::function<void(optim::Optimizer&)> before_zero_grad = {};
};

/// What a checkpoint has beside the engine's own state.
struct SaveExtras {
  /// The value by which the checkpoint with the lowest one is the best.
  std::optional<double> validation_loss = {};
  std::map<std::string, std::string> run = {};    ///< the program's own state, as text
  std::map<std::string, std::string> model = {};  ///< what the model is built with, as text
  int64_t keep = 0;       ///< newest checkpoints of the folder that are kept, besides the best; 0: all
  int64_t keep_best = 1;  ///< those with the lowest validation losses that are kept besides
  /// Tensors beside those of model and optimizer: what this rank holds of them.
  std::vector<dist::GroupShard> groups = {};
  /// Writes the checkpoint of a sharded run while the next steps run; null: before `save_checkpoint` returns.
  dist::BackgroundSave* background = nullptr;
};

/// The step of a run, for any model: DeepSpeed's engine without the forward call, which needs the model's
/// type
/// (`Engine`). For each micro-batch a forward, `backward` and `step`; the optimizer updates at the last
/// micro-batch of a step, and gradients are then removed.
class EngineCore {
 public:
  /// Shards the model where there are several ranks or the strategy shards, gives it initial values where it
  /// has none
  /// (`nn::materialize` with the configuration's seed), and makes the optimizer. All ranks construct
  /// together. Throws ConfigError for options that contradict each other or are not there yet, and as
  /// `dist::shard`.
  EngineCore(nn::Module& model, EngineOptions options);
  ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  /// Called before each forward of a micro-batch in training: until its backward, gradients are of a step
  /// that has more micro-batches.
  void begin_micro_batch();
  /// Gradients of a micro-batch's mean loss, as its share of the step and times the loss scale. `weight` is
  /// its part of the step's mean; by default 1 / accumulation_steps. Throws ValueError for a loss that is no
  /// single number.
  void backward(const Variable& loss, std::optional<double> weight = {});
  /// In stages, instead of a forward and `backward`: takes a micro-batch, and at the last one of a step runs
  /// forward and backward of all. Returns their mean loss then, on every rank. Throws as
  /// `dist::Pipeline::train_step`, and ConfigError without stages.
  std::optional<double> run_in_stages(dist::MicroBatch batch);
  /// The mean loss of the samples of a batch on all ranks, and their number without padding.
  struct StageEvaluation {
    double loss = 0;     ///< the mean
    double samples = 0;  ///< their number
  };
  /// In stages, without gradients; all ranks call it together. Throws as `dist::Pipeline::evaluate`.
  StageEvaluation evaluate_in_stages(const data::Batch& batch);
  /// What `run_in_stages` takes from a batch, in which the random numbers are those of its samples.
  dist::MicroBatch stage_batch(const data::Batch& batch) const;
  /// Ends a micro-batch. At the last one of a step: clips, updates, removes the gradients and advances the
  /// schedule. Returns whether the optimizer updated: false within a step, and where loss scaling skips it.
  /// Throws NonFiniteError, before anything changes, for gradients that are not finite without loss scaling,
  /// and ConfigError for a micro-batch without `backward`.
  bool step();
  /// Whether the current micro-batch is the last one of its step.
  bool is_gradient_accumulation_boundary() const;

  /// Where the inputs of checkpointed segments are until backward.
  struct KeptInputs {
    SavingPolicy policy = nullptr;                  ///< empty: with all other activations
    std::function<int64_t()> peak_bytes = nullptr;  ///< the most at once, counted apart
  };
  /// The dtype of forward and backward.
  DType compute_dtype() const;
  /// What is held of the inputs of checkpointed segments (`TrainingConfig::activation_offload`); may be
  /// empty.
  const SavingPolicy& kept_inputs() const { return kept_inputs_.policy; }
  /// The most bytes of them at once so far, on this rank: in the CPU's memory or in the file, where they are
  /// counted apart. 0 without `activation_offload`.
  int64_t offloaded_bytes_peak() const { return kept_inputs_.peak_bytes ? kept_inputs_.peak_bytes() : 0; }
  /// The device of this rank, its number, its number on its machine, and the number of ranks.
  /// @{
  Device device() const;
  int rank() const { return world_ ? world_->rank() : 0; }
  int local_rank() const { return world_ ? world_->local_rank() : 0; }
  int world_size() const { return world_ ? world_->size() : 1; }
  /// @}
  /// Sizes of the batch equation (`resolve_batch_sizes`).
  /// @{
  int64_t train_batch_size() const { return config_.train_batch_size; }
  int64_t train_micro_batch_size_per_gpu() const { return config_.micro_batch_size; }
  int64_t gradient_accumulation_steps() const { return config_.accumulation_steps; }
  /// @}
  /// Steps of the optimizer, steps that loss scaling skipped among them, and micro-batches, since the start.
  /// @{
  int64_t global_steps() const { return global_steps_; }
  int64_t skipped_steps() const { return skipped_steps_; }
  int64_t micro_steps() const { return micro_steps_; }
  /// @}
  /// The norm of all gradients of the last step, before clipping; NaN or infinite in a skipped one.
  double global_grad_norm() const { return gradient_norm_; }
  /// The loss scale; 1 without scaling.
  double loss_scale() const;
  /// The rate of each group of the optimizer in the next step.
  std::vector<double> get_lr() const;

  /// From here on the learning rates are the schedule's, from its position on. Before the first step.
  void set_schedule(optim::Schedule schedule);

  /// The largest norm of all gradients from the next update on; 0: no clipping. Throws ConfigError for a
  /// negative number and NaN.
  void set_gradient_clip(double norm);

  /// The model and the optimizer.
  /// @{
  nn::Module& module() { return model_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  /// @}
  /// Nothing without a schedule.
  const std::optional<optim::Schedule>& schedule() const { return schedule_; }
  /// Null without sharding.
  dist::Sharding* sharding() { return sharding_; }
  /// The options, with all batch sizes.
  const TrainingConfig& config() const { return config_; }
  /// Null for one process.
  dist::World* world() { return world_; }
  /// Null without stages.
  dist::Pipeline* pipeline() { return pipeline_.get(); }
  /// The pipeline for evaluations after the engine's end. Its model and the ranks must outlive it.
  std::shared_ptr<dist::Pipeline> shared_pipeline() const { return pipeline_; }
  /// Ranks that train batches of their own: all of them, or those with the same stages.
  int data_ranks() const { return training::data_ranks(config_.stages, world_size()); }
  /// This one's number among them.
  int data_rank() const { return training::data_rank(config_.stages, rank(), world_size()); }
  /// What this rank saves and loads in checkpoints of several ranks.
  dist::ShardPlacement placement() const;

  /// Writes the model, the optimizer and the engine's counters as the checkpoint of global_steps() in the
  /// run's folder; all ranks call it together. Returns the checkpoint's folder. Throws CheckpointError.
  std::string save_checkpoint(const std::string& folder, const SaveExtras& extras = {});
  /// Fills them from a checkpoint, or from the latest one of a run's folder, which any number of ranks wrote.
  /// The next step is the one after it, with the same bits as without a stop. Throws CheckpointError; then
  /// nothing has changed.
  /// Returns `SaveExtras::run`, and the sizes and options that the run began with. `check` is called with
  /// them before anything changes, and may throw. `groups` are `SaveExtras::groups`, filled too; one that the
  /// checkpoint does not have is left as it is.
  std::map<std::string, std::string> load_checkpoint(
      const std::string& folder,
      const std::function<void(const std::map<std::string, std::string>&)>& check = {},
      const std::vector<dist::GroupShard>& groups = {});

  /// Fills the model alone from a checkpoint: optimizer, steps and schedule stay. Throws CheckpointError;
  /// then nothing has changed.
  void load_weights(const std::string& folder);

  /// A checkpoint by its parts, for one of several engines: names are those within the model. The groups
  /// are "model" and "optimizer": full tensors without sharding, else what this rank holds.
  /// @{
  dist::TrainingState training_state(const SaveExtras& extras) const;
  std::vector<dist::TensorGroup> full_groups();
  std::vector<dist::GroupShard> shard_groups();
  /// @}
  /// Steps, the schedule's position and the loss scale as text, and back. `load_counters` throws
  /// CheckpointError for one that is missing or no number.
  /// @{
  std::map<std::string, std::string> counters() const;
  void load_counters(const std::map<std::string, std::string>& saved);
  /// @}

  /// The name under which a checkpoint keeps `skipped_steps`.
  static constexpr const char* skipped_name = "skipped_steps";

 private:
  void take_squares(int64_t backwards);
  bool update();
  void cut(EngineOptions& options);
  void report(LogLevel level, const char* component, const std::string& message) const;

  nn::Module& model_;
  TrainingConfig config_;
  dist::World* world_;
  Device device_;
  bool is_on_ranks() const { return sharding_ || pipeline_; }
  dist::Sharding* sharding_ = nullptr;
  std::shared_ptr<dist::Pipeline> pipeline_;          // null without stages
  std::vector<dist::MicroBatch> micro_batches_ = {};  // of the step, in stages
  std::function<dist::MicroBatch(const data::Batch&)> stage_batch_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::Schedule> schedule_;
  std::unique_ptr<optim::GradScaler> scaler_;  // null without loss scaling
  std::unique_ptr<CheckpointedModules> checkpointed_;
  std::optional<dist::Accumulation> accumulation_;
  std::unique_ptr<optim::GradientSquares> squares_;
  int64_t global_steps_ = 0, skipped_steps_ = 0, micro_steps_ = 0;
  double gradient_norm_ = 0;
  std::function<void(optim::Optimizer&)> before_zero_grad_;
  KeptInputs kept_inputs_;
  Logger log_;
  bool has_gradients_ = false;  // of the current micro-batch
};

/// What a forward of the engine's model runs under: autocast to its dtype of computation, and its place for
/// the inputs of checkpointed segments.
class ForwardScope {
 public:
  /// The engine must outlive it.
  explicit ForwardScope(const EngineCore& engine);

 private:
  AutocastScope autocast_;
  CheckpointInputsScope inputs_;
};

}  // namespace tessera::training
