#include "dist/train/config/stage_options.h"

#include "tensor/error.h"

namespace tessera::training {

int data_ranks(const StageOptions& stages, int world_size) {
  if (stages.stages == 0) return world_size;
  require<ConfigError>(stages.stages > 0 && world_size % stages.stages == 0, "pipeline_stages ",
                       stages.stages, ": expected a divisor of the ", world_size, " ranks");
  return world_size / stages.stages;
}

int data_rank(const StageOptions& stages, int rank, int world_size) {
  return rank % data_ranks(stages, world_size);
}

}  // namespace tessera::training
