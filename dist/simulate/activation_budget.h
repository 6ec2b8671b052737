#pragma once  // not in tessera.h

#include <cstdint>
#include <string>
#include <vector>

#include "dist/simulate/step.h"
#include "nn/sequence/checkpoint_plan.h"

namespace tessera::dist {

/// The most bytes of activations on a rank: a number, or a part of those of a run that keeps all.
struct ActivationBudget {
  int64_t bytes = 0;    ///< where `fraction` is 0
  double fraction = 0;  ///< of what the rank would hold; 0: `bytes`

  /// The bytes, of `all`.
  int64_t of(int64_t all) const;
};

/// Reads "25%", or bytes such as "200000000", "200MB" and "1.5GiB". Throws ConfigError that begins with
/// `place` for another form, for 0, and for more than 100 %.
ActivationBudget parse_activation_budget(const std::string& value, const std::string& place);

/// What is kept of each layer, chosen for a budget of activations on each rank of a pipeline, or on one
/// device.
struct PlannedActivations {
  std::vector<nn::KeptOfLayer> kept = {};  ///< by layer
  std::vector<int64_t> without = {};       ///< activations of each rank where all is kept, at their peak
  std::vector<int64_t> budget = {};        ///< of each rank
  std::vector<int64_t> peak = {};          ///< of each rank with the plan, at most its budget
  int64_t flops = 0;          ///< of a micro-batch, forward and backward, of all layers, with the plan
  int64_t flops_without = 0;  ///< those where all is kept
};

/// Chooses what backward runs again, so that the activations of no rank exceed `budget` and the FLOPs of
/// recomputation are few: on each rank the cheapest choices of its layers (`nn::plan_checkpointing`), where
/// what a layer keeps counts once for each live micro-batch of its stage, then the whole step in the
/// simulation, with less until all ranks fit. `options.checkpointing` is not read. Throws ConfigError that
/// names the rank and the least that was found, where nothing fits, and as `simulate_step`.
PlannedActivations plan_activations(ModelProfile& model, const SimulationOptions& options,
                                    const ActivationBudget& budget, const nn::CheckpointChoices& choices);

/// The plan as text: what is kept of which layers, and a line for each rank with its bytes.
std::string to_string(const PlannedActivations& plan, const nn::LayeredModel& model);

}  // namespace tessera::dist
