#pragma once  // not in tessera.h

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dist/fsdp/estimate.h"
#include "dist/pipeline/generators/schedule_kind.h"
#include "dist/pipeline/partition/partition.h"
#include "dist/pipeline/simulation/timing.h"
#include "dist/simulate/machine_rates.h"
#include "dist/simulate/model_profile.h"
#include "tensor/memory/account.h"

namespace tessera::dist {

/// How a model is trained on ranks: a mesh of "pipeline", "replica" and "shard", the last of which varies
/// fastest, and what runs on it.
struct SimulationOptions {
  int stages = 1;                                     ///< ranks along "pipeline"
  int replicas = 1;                                   ///< along "replica", for the hybrid strategies
  int shards = 1;                                     ///< along "shard": of no_shard the copies of a stage
  Strategy strategy = Strategy::no_shard;             ///< of the ranks that have the same stages
  ScheduleKind schedule = ScheduleKind::one_f_one_b;  ///< which schedule
  int chunks = 0;                                     ///< ScheduleOptions::chunks
  /// Whether a `Pipeline` runs it also with one stage on a rank: units are gathered by action, and gradients
  /// stay whole until the end of the step. Without, one stage is a model that is sharded as a whole.
  bool is_pipeline = false;
  std::optional<PipelineSchedule> table = {};      ///< instead of `schedule`, for `micro_batches` of them
  int micro_batches = 1;                           ///< of a step, on each column of stages
  PartitionMethod partition = {};                  ///< how layers are cut into stages
  nn::ActivationCheckpointing checkpointing = {};  ///< of the layers within a stage
  /// What is kept of each layer, as chosen for `activation_budget` bytes of a rank (`plan_activations`);
  /// none: `checkpointing` alone.
  /// @{
  std::vector<nn::KeptOfLayer> kept = {};
  int64_t activation_budget = 0;
  /// @}
  /// Layers of this kind are units of their own, which are gathered for their calls; what is in others
  /// belongs to the root. Empty: all of a stage is the root.
  std::string unit_kind = {};
  DType compute = f32;                                         ///< of gathered parameters
  DType reduce = f32;                                          ///< of gradients that are sent
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;  ///< as in ShardOptions
  int64_t optimizer_bytes = 8;  ///< of optimizer state for each element: Adam's two means
  /// Memory traffic of an element's update: Adam reads four values and writes three.
  int64_t update_bytes = 28;

  /// The ranks in all.
  int64_t ranks() const { return int64_t{1} * stages * replicas * shards; }
};

/// A rank of a simulated step, and all that do the same in the same time.
struct SimulatedRank {
  int64_t rank = 0;                ///< the first of them in the world
  int64_t copies = 1;              ///< how many they are
  double compute = 0;              ///< seconds in which it computes
  double communication = 0;        ///< seconds of its messages and collectives, overlapped or not
  int64_t parameters = 0;          ///< trained values of its stages, each once
  StepTraffic traffic = {};        ///< bytes that it sends for parameters and gradients
  int64_t activation_traffic = 0;  ///< bytes of activations and of their gradients that it sends
  int64_t tied_traffic = 0;        ///< bytes of gradients of tied parameters that it sends
  int64_t activations = 0;         ///< the most bytes of activations at once
  StateBytes state = {};           ///< as in Estimate
  StateBytes temporary = {};       ///< as in Estimate
  std::array<int64_t, memory_categories> memory = {};  ///< at the peak, by MemoryCategory

  /// The sum over the categories: the most bytes that it holds.
  int64_t peak_bytes() const;
};

/// A step of a training run, as predicted.
struct SimulatedStep {
  double seconds = 0;                ///< from its beginning to the last update
  double exposed_communication = 0;  ///< how much shorter it would be if no message took time
  std::vector<SimulatedRank> ranks;  ///< by pipeline rank; with MachineRates::speeds every rank
  PipelineSchedule schedule;         ///< without messages
  PipelineTimeline timeline;         ///< of its actions, by rank of the pipeline in the first column
  std::vector<int64_t> boundaries;   ///< the first layer of each stage, and the number of layers
  /// Of the rank with the largest.
  int64_t peak_bytes() const;
};

/// Predicts a step: its time by discrete events, of which each takes what the profile and the rates give, and
/// its memory by the formulas of `estimate` and by following each rank's table.
///
/// Ranks that have the same stages do the same, so one of them is simulated for all, and the time that this
/// takes does not depend on their number; with `rates.speeds` every rank is simulated. A step begins with
/// reset gradients and ends with the optimizer's update. Gradients are reduced while the last backward runs
/// where there is one stage and the strategy does that, else at the end.
///
/// Throws ConfigError for options out of range, more stages than layers, replicas for a strategy that has
/// none, and speeds of another number of ranks; and as `make_schedule` and `partition_layers`.
SimulatedStep simulate_step(ModelProfile& model, const SimulationOptions& options, const MachineRates& rates);

/// The prediction as text: time, bubble, communication and samples a second for `samples` in a step, and a
/// line for each rank with its layers, time, bytes and traffic.
std::string describe(const SimulatedStep& step, const SimulationOptions& options, int64_t samples);

}  // namespace tessera::dist
