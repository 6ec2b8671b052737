#pragma once  // not in tessera.h

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
  int chunks = 0;                                                 ///< stages on each rank; 0: the schedule's
  std::string partition = "parameters";                           ///< dist::parse_partition_method
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

}  // namespace tessera::training
