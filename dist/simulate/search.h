#pragma once  // not in tessera.h

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/simulate/step.h"
#include "nn/sequence/checkpoint_plan.h"

namespace tessera::dist {

/// What is searched for the fastest way to train a model on some ranks.
struct SearchOptions {
  int64_t ranks = 1;           ///< in all
  int64_t ranks_per_node = 0;  ///< ranks along a dimension within a node use the rates' links; 0: all ranks
  LinkRates between_nodes;     ///< the link of a dimension that goes beyond a node
  int64_t batch_size = 1;      ///< samples of a step, of all ranks together
  int64_t memory_bytes = 0;    ///< that a rank has; 0: no limit
  /// Micro-batch sizes to try; empty: the powers of two.
  std::vector<int64_t> micro_batch_sizes = {};
  /// Ways to keep activations, the first one without checkpointing.
  std::vector<nn::ActivationCheckpointing> checkpointing = {{}};
  /// Whether candidates without checkpointing that need more than `memory_bytes` are planned block by block
  /// for what is left (`plan_activations`), where that can be among the best: the fastest few.
  bool plans_activations = true;
  nn::CheckpointChoices choices = {};  ///< of these plans
  int most_stages = 64;                ///< of the pipeline
  int most_chunks = 4;                 ///< stages of a rank, where the layers allow as many
  int64_t most_micro_batches = 512;    ///< of a step on a rank: meshes that would need more are left out
  SimulationOptions common;            ///< partition, units, dtypes and optimizer of all candidates
};

/// A way to train the model.
struct FoundPlan {
  SimulationOptions options;     ///< the choices
  int64_t micro_batch_size = 0;  ///< samples of a micro-batch
  SimulatedStep step;            ///< its prediction
};

/// A candidate that was compared, in short.
struct TriedPlan {
  SimulationOptions options;     ///< the choices
  int64_t micro_batch_size = 0;  ///< samples of a micro-batch
  int64_t peak_bytes = 0;        ///< of the rank with most; a lower bound where `is_bound`
  double seconds = 0;            ///< of a step; a lower bound where `is_bound`
  bool is_bound = false;         ///< it cannot be among the best, so its step was not simulated
  bool fits = true;              ///< into the memory
};

/// What a search found.
struct SearchResult {
  std::vector<FoundPlan> best;   ///< those that fit, the fastest first
  std::vector<TriedPlan> tried;  ///< all candidates
};

/// The profile of a model for a micro-batch of so many samples.
using ProfileOf = std::function<std::shared_ptr<ModelProfile>(int64_t micro_batch_size)>;

/// Simulates every mesh of the ranks, strategy, schedule, micro-batch size and checkpointing, and returns the
/// `most` fastest that fit. Schedules with chunks are tried with 2 to `most_chunks`. A candidate of which the
/// memory does not fit, or of which the computing alone takes longer than the best found so far, is not
/// simulated further. Meshes are those in which stages divide the ranks and are not more than layers; a flat
/// strategy shards over all ranks of a stage, a hybrid one over those of a node. Throws ConfigError for ranks
/// or a batch below 1 or above 2^24 and 2^40, for ranks that are no multiple of those of a node, for other
/// options out of range, for ranks of several speeds, and where no micro-batch size divides the batch over
/// the ranks.
SearchResult search_plans(const ProfileOf& profile_of, const SearchOptions& options,
                          const MachineRates& rates, size_t most = 5);

/// Why a plan was found, a line each: what the nearest candidates cost that differ from it in one choice.
std::vector<std::string> reasons(const FoundPlan& plan, const SearchResult& result);

/// The choices of a plan in words: "4 stages, 1f1b, full_shard over 8 ranks, micro-batches of 2, ...".
std::string describe_choices(const SimulationOptions& options, int64_t micro_batch_size);

}  // namespace tessera::dist
