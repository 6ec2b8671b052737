#pragma once

#include <string>

#include "dist/train/plan/step_plan.h"
#include "nn/summary.h"
#include "tools/gptlite/start.h"

namespace tessera::gptlite {

/// The cost of a training step, from a run of the model on meta: no values are allocated.
struct Plan {
  int64_t parameters_per_block = 0;
  int64_t flops_per_token = 0;  ///< forward and backward, by nanoGPT's estimate
  int64_t tokens = 0;           ///< of a micro-batch
  training::StepPlan step;
  nn::Summary summary;
};

/// The memory that training by `run` takes, by the code that trains. For a run on ranks it is the plan of one
/// rank; all ranks call it.
training::StepPlan plan_memory(const Run& run, dist::World* world = nullptr);

/// The same with what a forward costs.
Plan plan_step(const Run& run, dist::World* world = nullptr);

/// The plan's figures, a line each.
std::string describe(const Plan& plan);

/// `gptlite train --explain`: every option with its source, and the plan. All ranks call it.
std::string explain(const Start& start, dist::World* world);

}  // namespace tessera::gptlite
