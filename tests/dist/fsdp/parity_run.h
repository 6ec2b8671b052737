#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dist/fsdp/shard.h"
#include "tests/dist/fsdp/parity_models.h"

namespace tessera::test {

/// How gradients of a step's micro-batches are accumulated.
enum class Accumulate {
  none,         ///< one batch a step
  communicate,  ///< three micro-batches, each reduced at once
  no_sync       ///< three micro-batches, reduced with the last one
};

/// A row of the matrix: the model and how it is trained.
struct ParityCase {
  std::string name;
  ModelMaker model;
  Accumulate accumulate = Accumulate::none;
  double max_norm = 0;     ///< gradients are clipped to it; 0: not clipped
  int64_t alignment = 16;  ///< ShardOptions::alignment
};

/// The strategy and the dtypes of a run.
struct ParitySetting {
  dist::Strategy strategy = dist::Strategy::no_shard;
  DType declared = f32;               ///< of the model's parameters
  std::optional<DType> compute = {};  ///< ShardOptions::precision
  int64_t steps = 10;
  std::function<void(nn::Module&)> when_sharded = {};  ///< called with the model
  dist::MessageOptions messages = {};                  ///< ShardOptions::messages
  bool forward_prefetch = false;                       ///< ShardOptions::forward_prefetch
};

/// A rank's shard of a tensor at the end of a run: elements first, first + 1, ... of `name`.
struct ParityShard {
  std::string name;  ///< "parameter/first.weight", "exp_avg/first.weight", "step/first.weight"
  int64_t first = 0;
  Tensor values;  ///< one-dimensional
};

struct ParityOutcome {
  std::vector<double> losses;  ///< of each step, on this rank's samples
  std::vector<double> norms;   ///< of the gradients before clipping, if they are clipped
  std::vector<ParityShard> shards;
};

/// Trains the sharded model on this rank's samples of each global batch.
ParityOutcome run_sharded(const ParityCase& c, const ParitySetting& setting, const dist::Mesh& mesh);
/// Trains on the global batches of `ranks` ranks, without dist/.
ParityOutcome run_undistributed(const ParityCase& c, const ParitySetting& setting, int ranks);

/// Differences in bits from `reference`, which holds full tensors.
std::vector<std::string> bit_differences(const ParityOutcome& outcome, const ParityOutcome& reference);
/// Differences from `reference` larger than the tolerance, relative to the larger of 1 and the value. Losses
/// are compared only if they are a shard "loss".
std::vector<std::string> differences(const ParityOutcome& outcome, const ParityOutcome& reference,
                                     double tolerance);

}  // namespace tessera::test
