#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dist/fsdp/shard.h"
#include "dist/pipeline/generators/schedule_kind.h"
#include "dist/simulate/activation_budget.h"
#include "dist/train/config/field_table.h"
#include "models/presets.h"
#include "nn/layers/containers.h"
#include "optim/grad_scaler.h"

/// The options of gptlite's commands: for each a struct, and a table that gives its flags, what `--explain`
/// prints and what checkpoints and metrics record.
namespace tessera::gptlite {

/// How a run is distributed over ranks. It changes values by rounding alone, so checkpoints do not contain
/// it.
struct Parallel {
  dist::Strategy strategy = dist::Strategy::full_shard;  ///< what is sharded
  /// Ranks along the mesh's dimension "shard", the others along "replica"; 0 before `resolve_parallel`: all.
  int shard_group_size = 0;
  std::string auto_wrap = "block";    ///< the units: "block", "size:N" or "none"
  int64_t bucket_bytes = 25 << 20;    ///< of gradients that no_shard sums over ranks at once
  int64_t reduce_bucket_size = 0;     ///< elements of a message; 0: that of bucket_bytes, else no limit
  int64_t gather_bucket_size = 0;     ///< elements of a message; 0: no limit
  int64_t prefetch_bucket_size = -1;  ///< elements gathered ahead; -1: no limit
  bool overlap_communication = true;
  bool reduce_scatter = true;
  bool gather_partitions = true;
  dist::BackwardPrefetch backward_prefetch = dist::BackwardPrefetch::pre;
  bool accumulate_communication = false;
  double timeout = 300;     ///< seconds
  int pipeline_stages = 0;  ///< ranks that share the layers; 0: no pipeline
  dist::ScheduleKind pipeline_schedule = dist::ScheduleKind::one_f_one_b;
  std::string pipeline_schedule_file = {};  ///< a CSV file instead; empty: none
  int pipeline_chunks = 0;                  ///< stages of a rank; 0: the schedule's
  int pipeline_most_live = 0;               ///< of micro-batches on a rank; 0: any
  std::string partition_method = "parameters";

  int world_size = 1;       ///< not a flag: the number of ranks
  std::string launcher;     ///< not a flag: "mpirun", ...; empty: ranks are threads of this process
  bool is_sharded = false;  ///< not a flag: whether there are several ranks, or a strategy was given

  /// Ranks that train sequences of their own: those with the same stages, or all.
  int data_ranks() const { return pipeline_stages > 0 ? world_size / pipeline_stages : world_size; }
  int replicas() const { return data_ranks() / shard_group_size; }
};

/// A run's configuration: all that its values depend on, the model, the training options, the seed and the
/// text. A checkpoint contains it.
struct Run {
  models::Preset preset = models::preset("nano-cpu", 65);
  int64_t micro_batch_size = 0;  ///< sequences that a rank computes at once; 0 before `resolve_run`
  uint64_t seed = 1337;
  std::string dtype = "fp32";            ///< of computation: "fp32", "bf16" or "fp16"
  optim::GradScalerOptions scaler = {};  ///< of fp16
  double eps = 1e-8;                     ///< of AdamW
  std::string scheduler;                 ///< a schedule of DeepSpeed as JSON; empty: the preset's cosine
  /// What backward computes again. It changes no value, so checkpoints do not contain it.
  nn::ActivationCheckpointing checkpointing = {};
  /// The most activations of a rank, as `dist::parse_activation_budget` reads it; empty: any. And, not a
  /// flag, what is kept of each layer for it.
  /// @{
  std::string activation_budget = {};
  std::optional<dist::PlannedActivations> planned_activations = {};
  /// @}
  /// Where the inputs of its segments are kept, as in training::TrainingConfig; not in checkpoints either.
  /// @{
  std::string activation_offload = {};
  int64_t activation_offload_bytes = 0;
  /// @}
  bool keep_packed_weights =
      false;  ///< as in training::TrainerOptions; not in checkpoints, for the same bits
  Parallel parallel = {};
  std::string dataset = "tiny-shakespeare";
  std::string data;  ///< the dataset's file or folder; empty: where the dataset is searched for
};

/// What computes.
struct DeviceOptions {
  std::string device = "cpu";
  int threads = 0;  ///< 0: the library's default (tensor/threads/parallel.h)
};

/// What a segment of activation checkpointing keeps beside its input.
enum class KeptActivations : uint8_t { attention, none };

struct TrainOptions {
  Run run;
  DeviceOptions device;
  int virtual_ranks = 0;  ///< 0: the launcher's, or one
  KeptActivations kept_activations = KeptActivations::attention;
  int64_t eval_interval = 250;
  int64_t eval_steps = 0;  ///< batches of an estimate; 0: the whole validation set
  std::string out;         ///< empty: "out", or the resumed run's
  std::string resume;      ///< a folder, or "latest"
  std::string init_from;   ///< a folder; empty: random weights
  int64_t checkpoint_interval = 500;
  int64_t keep = 3;
  bool async_save = false;
  std::string metrics;
  std::string tensorboard;    ///< folder of the event files; empty: none
  std::string profile;        ///< file of the trace; empty: no profile
  std::string profile_steps;  ///< "A:B"; empty: the default of `training::parse_step_range`
  std::string parity_export;
  bool quiet = false;
};

/// How the weights of linear layers are stored.
enum class StoredWeights : uint8_t {
  as_dtype,  ///< in the type that is computed in
  int8       ///< as 8-bit integers with a scale for each row
};

struct SampleOptions {
  DeviceOptions device;
  std::string dtype;  ///< empty: the checkpoint's
  StoredWeights weights = StoredWeights::as_dtype;
  std::string checkpoint = "out";
  std::string prompt;
  std::string prompts;  ///< a file with a prompt in each line; empty: none
  int64_t batch = 1;    ///< continuations of each prompt
  int64_t length = 500;
  double temperature = 0.8;
  int64_t top_k = 0;  ///< 0: all characters
  double top_p = 1;
  std::string stop;  ///< empty: none
  uint64_t seed = 1337;
  bool no_cache = false;
};

struct EvalOptions {
  DeviceOptions device;
  std::string dtype;  ///< empty: the checkpoint's
  std::string checkpoint = "out";
  std::string dataset;  ///< empty: the checkpoint's
  std::string data;
  int64_t eval_steps = 0;
  int64_t batch_size = 0;  ///< 0: the checkpoint's micro-batch size
};

/// The tables, and the parts of the first one.
/// @{
const training::FieldTable<TrainOptions>& train_fields();
const training::FieldTable<models::GptOptions>& model_fields();
const training::FieldTable<models::Preset>& preset_fields();
const training::FieldTable<Parallel>& parallel_fields();
const training::FieldTable<Parallel>& pipeline_fields();
const training::FieldTable<SampleOptions>& sample_fields();
const training::FieldTable<EvalOptions>& eval_fields();
/// @}

/// The flags of `train`: the fields but for the vocabulary, which the data gives.
std::vector<training::FieldValue> train_flags();
/// The fields of a model and of a step of it, the vocabulary among them: the flags of `info`.
std::vector<training::FieldValue> step_flags();

}  // namespace tessera::gptlite
