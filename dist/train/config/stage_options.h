#pragma once  // not in tessera.h

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dist/pipeline/generators/schedule_kind.h"
#include "dist/pipeline/partition/partition.h"
#include "nn/layers/containers.h"

namespace tessera::training {

/// Training in stages of a pipeline (dist/pipeline).
struct StageOptions {
  /// Ranks of a pipeline, each with a part of the layers; divides the ranks. 0: no pipeline. The other ranks
  /// have the same stages, and are sharded or replicated by the strategy.
  int stages = 0;
  dist::ScheduleKind schedule = dist::ScheduleKind::one_f_one_b;  ///< which schedule
  /// Instead of `schedule`, a table in a CSV file (`dist::read_schedule_csv`) for the micro-batches of a
  /// step.
  std::string schedule_file = {};
  int chunks = 0;     ///< stages on each rank; 0: the schedule's
  int most_live = 0;  ///< the most micro-batches, each chunk counted, that a rank may hold; 0: any
  std::string partition = "parameters";  ///< dist::parse_partition_method
  /// What layers cost (`dist::layer_costs`), for the methods "profile" and "memory"; none: their parameters.
  std::vector<dist::LayerCost> costs = {};
  /// Of the layers of a stage: segments. Without stages layers 0, k, 2k, ... of the model's lists
  /// (`nn::checkpoint_every_kth`).
  nn::ActivationCheckpointing checkpointing = {};
};

/// The ranks of `world_size` that train batches of their own. Throws ConfigError unless the stages divide
/// them.
int data_ranks(const StageOptions& stages, int world_size);
/// The number among these of a rank of the world.
int data_rank(const StageOptions& stages, int rank, int world_size);

/// The table of a step of `micro_batches`, generated or read. Throws ConfigError that names the cell for a
/// table that `dist::check_schedule` refuses or that holds more than `most_live`, and for a file of other
/// numbers of ranks or micro-batches or with `chunks`.
dist::PipelineSchedule step_schedule(const StageOptions& stages, int64_t micro_batches);
/// PipelineOptions::table of these options: none where the schedule is generated. A file is for steps of
/// `micro_batches`; evaluations have any number (`dist::gpipe_like`). Throws as `step_schedule`.
std::function<dist::PipelineSchedule(int)> step_tables(const StageOptions& stages, int64_t micro_batches);

}  // namespace tessera::training
