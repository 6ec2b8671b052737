#pragma once

#include <string>
#include <vector>

#include "dist/launch/world.h"
#include "dist/simulate/step.h"
#include "dist/train/plan/peak_memory.h"
#include "tools/gptlite/run.h"

namespace tessera::gptlite {

/// What the layers of a run in stages cost: FLOPs and bytes of a micro-batch, from a run on meta.
std::vector<dist::LayerCost> stage_costs(const Run& run);

/// The time and memory of a step of a run in stages, from a run of its micro-batch on meta.
dist::SimulatedStep predict_stages(const Run& run, const dist::MachineRates& rates);

/// What is kept of each layer for `--activation-checkpoint-budget`, with stages or without. Throws
/// ConfigError where nothing fits.
dist::PlannedActivations plan_budget(const Run& run);
/// Lets the blocks of a model run again as the run's options say.
void set_checkpointing(models::Gpt& gpt, const Run& run);

/// The memory of a rank of such a run.
training::PeakMemory plan_memory_of_stage(const Run& run, int rank);

/// The cut of the model, the table of a step, and its time and memory, predicted from the rates of this
/// machine. All ranks call it: they measure the rates together.
std::string explain_stages(const Run& run, dist::World& world);

}  // namespace tessera::gptlite
