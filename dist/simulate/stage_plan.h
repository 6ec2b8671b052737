#pragma once  // internal

#include <vector>

#include "dist/simulate/step.h"

namespace tessera::dist {

/// A layer of a stage in the simulation.
struct PlannedLayer {
  size_t unit = 0;                                                            ///< of its rank; 0: the root
  double forward = 0, backward = 0, backward_input = 0, backward_weight = 0;  ///< seconds, recomputation too
};

/// A stage as its rank runs it.
struct PlannedStage {
  int rank = 0;  ///< of the pipeline
  std::vector<PlannedLayer> layers;
  StageProfile profile;
  bool has_input_gradient = true;
  int64_t trained = 0;              ///< elements of its parameters with a gradient
  int64_t sent = 0, sent_back = 0;  ///< bytes of a forward's and of a backward's message; 0: no other rank
};

/// What a rank of the pipeline holds.
struct PlannedRank {
  std::vector<int> stages;  ///< of the model
  Estimate estimate;        ///< its units, and their state
  int64_t parameters = 0;   ///< trained values, each once
};

/// A parameter that stages of several ranks read.
struct TiedParameter {
  std::vector<int> ranks;  ///< of the pipeline
  int64_t bytes = 0;       ///< of its gradient
};

/// What a simulation of a step runs: the model cut into stages, with the times of their layers.
struct StepPlan {
  PipelineSchedule schedule;
  std::vector<int64_t> boundaries;
  std::vector<PlannedStage> stages;
  std::vector<PlannedRank> ranks;  ///< of the pipeline
  std::vector<TiedParameter> tied;
  bool is_pipeline = false;  ///< whether a `Pipeline` runs it, also with one stage
};

/// Cuts the model and makes the table. Throws as `simulate_step`.
StepPlan plan_stages(ModelProfile& model, const SimulationOptions& options, const MachineRates& rates);

/// When the room for gradients of parameters is taken.
enum class FirstGradients {
  by_layer,  ///< as a stage's first backward reaches the layers
  of_stage,  ///< at the beginning of a stage's first backward
  of_rank,   ///< those of all stages of a rank, at the beginning of its first backward
};

/// The bytes that a rank holds while its actions run.
struct RankPeak {
  int64_t activations = 0;  ///< the most at once
  /// Activations and whole gradients of parameters when their sum is largest.
  /// @{
  int64_t activations_then = 0, gradients_then = 0;
  /// @}
};

/// The peak of a rank of the pipeline, by following its actions: a message's values are there from its RECV
/// to the action that reads them, a gradient of inputs from the action that computes it to the end of the
/// action after its SEND, and the gradients of a stage's parameters, `gradient_bytes` of the rank in all,
/// come with its first backward: layer by layer, or as `gradients` says.
RankPeak peak_of_actions(const StepPlan& plan, int rank, const PipelineSchedule& with_messages,
                         int64_t gradient_bytes, FirstGradients gradients);

}  // namespace tessera::dist
