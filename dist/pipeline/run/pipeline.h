#pragma once  // not in tessera.h

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dist/checkpoint/rank_shards.h"
#include "dist/fsdp/shard.h"
#include "dist/mesh/mesh.h"
#include "dist/pipeline/generators/schedule_kind.h"
#include "dist/pipeline/partition/partition.h"
#include "dist/pipeline/schedule/schedule.h"
#include "nn/layers/containers.h"
#include "nn/sequence/layer_spec.h"

namespace tessera::dist {

/// A mesh of `stages` ranks along "pipeline" and the others along "shard", which varies fastest: ranks 0 to
/// world / stages - 1 have the first stage. Throws ConfigError unless the stages divide the ranks.
Mesh pipeline_mesh(World& world, int stages);

/// A micro-batch of a pipeline's step. Shapes may differ from one to the next.
struct MicroBatch {
  std::vector<Tensor> inputs = {};    ///< of the first layer; read on the rank of the first stage alone
  std::vector<Tensor> targets = {};   ///< of the loss; read on the rank of the last stage alone
  std::vector<int64_t> samples = {};  ///< RandomContext::samples
  std::optional<int64_t> step = {};   ///< RandomContext::step; nothing: that of the thread
  std::optional<double> weight = {};  ///< instead of PipelineOptions::weight
};

struct RunInput;
class StageRandom;

/// What a rank of a pipeline did in a step, by the clock of its host.
struct StageMetrics {
  double seconds = 0;       ///< from the first action to the last message
  double busy_seconds = 0;  ///< in which it computed; in the others it waited: the bubble, and messages
  int64_t most_live = 0;    ///< micro-batches, each chunk counted, that lived at once
  /// The share of the time in which it waited.
  double idle() const { return seconds > 0 ? 1 - busy_seconds / seconds : 0; }
};

/// Options of a Pipeline.
struct PipelineOptions {
  Mesh mesh;                                          ///< with a dimension "pipeline"
  ScheduleKind schedule = ScheduleKind::one_f_one_b;  ///< which schedule
  int chunks = 0;                                     ///< ScheduleOptions::chunks
  /// Instead of `schedule`: a table for each number of micro-batches that a step has.
  std::function<PipelineSchedule(int micro_batches)> table = {};
  PartitionMethod partition = {};  ///< how layers are cut into stages
  /// What layers cost, for the methods that need a run (`layer_costs`); none: their parameters.
  std::vector<LayerCost> costs = {};
  /// Segments of layers within a stage of which only the inputs are kept (nn::checkpoint_segments).
  nn::ActivationCheckpointing checkpointing = {};
  /// Micro-batches of a step for which the partition `memory` counts live ones.
  int micro_batches = 1;
  /// What a micro-batch's mean loss counts in that of the step, such as its number of valid targets: of the
  /// targets on the rank of the last stage. None: all count the same.
  std::function<double(const std::vector<Tensor>& targets)> weight = {};
};

/// A model that is cut into stages, and trained by a schedule. Each rank holds the parameters of its stages
/// alone: `parameters()` lists these, and an optimizer on each rank updates them.
///
///     models::Gpt gpt(options);                                    // on meta
///     dist::Pipeline pipeline(gpt, gpt.to_layered_model(), {.mesh = dist::pipeline_mesh(world, 4)});
///     nn::materialize(gpt, world.device(), 1337);                  // this rank's stages alone
///     optim::AdamW optimizer(pipeline.parameters(), {.lr = 1e-3});
///     const double loss = pipeline.train_step(micro_batches);      // forward and backward of all
///     optim::clip_grad_norm(pipeline.parameters(), 1.0);           // the norm over all stages
///     optimizer.step();
///     optimizer.zero_grad();
///
/// With other dimensions in the mesh, each of their ranks trains micro-batches of its own, and the stages are
/// sharded or replicated by a strategy:
///
///     dist::Pipeline pipeline(gpt, gpt.to_layered_model(), {.mesh = mesh});  // pipeline x shard
///     pipeline.shard({.mesh = mesh, .strategy = dist::Strategy::shard_grad_op,
///                     .units = dist::every<models::Block>()});
///     nn::materialize(gpt, world.device(), 1337);
///
/// Parameters are gathered once a step under shard_grad_op, and for each action under full_shard; gradients
/// are reduced once, at the end. Gradients are those of one device on the whole step, to rounding, and the
/// same bits in every run. All ranks of the pipeline construct it and call its functions together, with the
/// same number of micro-batches; another number is a MismatchError. After an exception in a step messages of
/// it may be on their way, which only the ranks that compute them know: gradients are incomplete, and further
/// steps are a ConfigError. The program starts again from a checkpoint.
class Pipeline {
 public:
  /// Cuts the model (`nn::hold_only`), which must outlive the pipeline. Throws ConfigError for a mesh without
  /// "pipeline" or with dimensions other than "replica" and "shard" beside it, for a model that is cut,
  /// sharded or in mixed precision already, for layers that are fewer than the stages or that leave out a
  /// parameter, and as `partition_layers`.
  Pipeline(nn::Module& model, nn::LayeredModel layers, PipelineOptions options);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// `dist::shard` of this rank's stages over the ranks that have the same ones: along "shard" and "replica"
  /// of the mesh. Before the first step. Layers are called, the model itself is not: its own hooks do not
  /// run, and `Precision::output` changes nothing. Throws as `dist::shard`, and ConfigError where it was
  /// called before, or for a mesh with other ranks along these dimensions than the pipeline's.
  Sharding& shard(ShardOptions options);

  /// Forward and backward of the micro-batches of a step. Adds the gradients of their mean loss, times
  /// `scale`, to those of the parameters; tied parameters have the sum over their stages. Returns the mean
  /// loss, on every rank. An error names the action in which it happened: stage, kind and micro-batch.
  /// Throws ConfigError for a mesh with several ranks of a stage without `shard`, after an exception in an
  /// earlier step, and for a model that `dist::shard` sharded; ValueError for a weight below 0; ShapeError
  /// for a loss that is no scalar; AutogradError under NoGrad.
  double train_step(std::span<const MicroBatch> micro_batches, double scale = 1);
  /// The mean loss without gradients, on every rank. Throws as `train_step`.
  double evaluate(std::span<const MicroBatch> micro_batches);
  /// The model's results by micro-batch, on the rank of the last stage; elsewhere empty.
  std::vector<nn::LayerValues> forward(std::span<const MicroBatch> micro_batches);

  /// `model.parameters()` with reductions over all stages: norms of gradients are those of the whole model,
  /// tied parameters counted once.
  ParameterList parameters() const;

  /// What this rank saves and loads in checkpoints of all ranks: `shards_of(model, &optimizer,
  /// pipeline.placement())`. A checkpoint of any mesh, of one process too, is loaded on any other.
  ShardPlacement placement() const;

  /// The first layer of each stage, and the number of layers.
  const std::vector<int64_t>& boundaries() const { return boundaries_; }
  /// What layers cost (`PipelineOptions::costs`).
  const std::vector<LayerCost>& costs() const { return options_.costs; }
  /// The table of a step of so many micro-batches, without messages.
  const PipelineSchedule& schedule(int micro_batches);
  /// The number of ranks that the model is cut over.
  int ranks() const { return ranks_->size(); }
  /// Whether this rank has the first stage, which reads inputs, and the last, which reads targets.
  /// @{
  bool is_first() const { return is_first_; }
  bool is_last() const { return is_last_; }
  /// @}
  /// The largest number of micro-batches, each chunk counted, that lived at once in the newest step.
  size_t most_live() const { return most_live_; }
  /// What each rank of the pipeline did in the newest step, on every rank.
  const std::vector<StageMetrics>& metrics() const { return metrics_; }

 private:
  /// The tables of a step of some number of micro-batches.
  struct Tables {
    PipelineSchedule schedule;
    std::vector<PipelineAction> training, forward;  // of this rank, with messages
  };
  /// A parameter of stages on several ranks.
  struct Tied {
    Variable parameter;
    std::shared_ptr<Communicator> ranks;
    /// Whether a stage of this rank has computed a gradient in this step, and the hook that sets it.
    std::shared_ptr<bool> is_reached = std::make_shared<bool>(false);
    HookHandle hook = {};
    Tensor before = {};  // its gradient before the step
  };
  RunInput run_input(std::span<const MicroBatch> micro_batches, bool records);
  const Tables& tables(int micro_batches);
  const Tables& agreed_tables(size_t micro_batches);
  PipelineSchedule make_table(int micro_batches) const;
  void agree(const std::string& name, const std::string& content);
  void cut();
  void find_tied();
  void find_shared_buffers(const std::map<const VariableImpl*, std::set<int>>& readers);
  void set_aside_tied();
  void reduce_tied();
  /// Says that a step or an evaluation runs.
  class Running {
   public:
    explicit Running(bool& is_running) : is_running_(is_running) { is_running_ = true; }
    ~Running() { is_running_ = false; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    bool& is_running_;
  };
  Running begin_run();
  void run_sharding(const PipelineAction& action);
  nn::LayerValues first_inputs(const MicroBatch& batch) const;
  Communicator* copies() const;
  std::unique_ptr<Unsharded> hold_parameters();
  nn::LayerValues loss_of(const nn::LayerValues& values, const MicroBatch& batch) const;
  double combine(double value, size_t micro_batches);
  double total_weight(std::span<const MicroBatch> micro_batches, std::vector<double>& weights);
  double broadcast_loss(double loss);
  void gather_metrics(const StageMetrics& own);

  nn::Module& model_;
  nn::LayeredModel layers_;
  PipelineOptions options_;
  std::shared_ptr<Communicator> ranks_;
  std::vector<int> stage_ranks_;  // by stage
  std::vector<int64_t> boundaries_;
  std::unique_ptr<StageRandom> random_;
  std::vector<std::vector<nn::LayerSpec>> stage_layers_;  // by stage, of this rank's
  std::map<int, Tables> tables_;                          // by micro-batches
  std::set<size_t> agreed_;       // numbers of micro-batches of which all ranks have the same table
  Sharding* sharding_ = nullptr;  // of the stages; it belongs to the model
  std::map<int, std::unique_ptr<Unsharded>> unsharded_;  // by stage
  std::vector<Tied> tied_;
  std::set<std::string>
      counted_elsewhere_;                 // of several ranks: an earlier one counts them in norms and saves
  std::set<std::string> held_elsewhere_;  // parameters and buffers of other stages alone
  bool is_first_ = false, is_last_ = false;
  bool is_broken_ = false;  // an exception ended a step, or one runs
  bool is_running_ = false;
  size_t most_live_ = 0;
  std::vector<StageMetrics> metrics_;
};

}  // namespace tessera::dist
