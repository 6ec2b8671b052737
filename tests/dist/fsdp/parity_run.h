#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dist/fsdp/shard.h"
#include "tests/dist/fsdp/parity_models.h"

namespace tessera::test {

/// How gradients of a step's micro-batches are added.
enum class Accumulate {
  none,         ///< one batch a step
  communicate,  ///< three, each reduced at once
  no_sync       ///< three, reduced with the last one
};

/// One line of the matrix: what is trained, and how.
struct ParityCase {
  std::string name;
  ModelMaker model;
  Accumulate accumulate = Accumulate::none;
  double max_norm = 0;     ///< clips to it; 0: does not
  int64_t alignment = 16;  ///< ShardOptions::alignment
};

/// Where and in which numbers.
struct ParitySetting {
  dist::Strategy strategy = dist::Strategy::no_shard;
  DType declared = f32;               ///< of parameters, as the model has them
  std::optional<DType> compute = {};  ///< ShardOptions::precision
  int64_t steps = 10;
  std::function<void(nn::Module&)> when_sharded = {};  ///< called with the model then
};

/// A part of a tensor that the run ended with: elements first, first + 1, ... of `name`.
struct ParityPiece {
  std::string name;  ///< "parameter/first.weight", "exp_avg/first.weight", "step/first.weight"
  int64_t first = 0;
  Tensor numbers;  ///< one-dimensional
};

struct ParityOutcome {
  std::vector<double> losses;  ///< of each step, on this rank's samples
  std::vector<double> norms;   ///< of the gradients before clipping, where it is clipped
  std::vector<ParityPiece> pieces;
};

/// Trains on this rank's share of each global batch, sharded.
ParityOutcome run_sharded(const ParityCase& c, const ParitySetting& setting, const dist::Mesh& mesh);
/// Trains on the global batches of `ranks` ranks, without any of dist/.
ParityOutcome run_undistributed(const ParityCase& c, const ParitySetting& setting, int ranks);

/// What differs from `whole`, which holds every tensor whole: nothing where all pieces and losses have the
/// same bits.
std::vector<std::string> bit_differences(const ParityOutcome& outcome, const ParityOutcome& whole);
/// What is further from `whole` than the tolerance, relative to the larger of 1 and the number. Losses are
/// not looked at, but for a piece "loss".
std::vector<std::string> differences(const ParityOutcome& outcome, const ParityOutcome& whole,
                                     double tolerance);

}  // namespace tessera::test
