#pragma once  // not in tessera.h

#include "dist/fsdp/policy.h"
#include "dist/pipeline/run/pipeline.h"
#include "dist/simulate/step.h"
#include "dist/train/config/stage_options.h"
#include "dist/train/config/training_config.h"

namespace tessera::training {

/// How a step in stages is simulated that an engine with these options takes. `module`, which is on meta,
/// gives the units. Throws ConfigError as `sharding_options`, NotBuiltError for units of several kinds.
dist::SimulationOptions simulation_options(nn::Module& module, const TrainingConfig& config,
                                           const dist::UnitPolicy& units, int world_size);

/// Predicts a step in stages on ranks of the same speed, with the rates of no machine: its memory and traffic
/// hold, its seconds do not. `profile` is of a model in the dtype that computes. Throws as
/// `dist::simulate_step`.
dist::SimulatedStep plan_in_stages(dist::ModelProfile& profile, const dist::SimulationOptions& options);

/// Bytes of activations that a forward of a micro-batch leaves to its backward, in all stages of a rank of
/// the pipeline.
int64_t kept_by_forward(dist::ModelProfile& profile, const dist::SimulatedStep& step,
                        const dist::SimulationOptions& options, int pipeline_rank);

}  // namespace tessera::training
