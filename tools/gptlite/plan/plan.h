#pragma once

#include <string>

#include "nn/summary.h"
#include "tools/gptlite/plan/memory_plan.h"
#include "tools/gptlite/ranks.h"
#include "tools/gptlite/start.h"

namespace tessera::gptlite {

/// The cost of a training step, from a run of the model on meta: no values are allocated.
struct Plan {
  int64_t parameters = 0;
  int64_t parameters_per_block = 0;
  int64_t flops_per_token = 0;  ///< forward and backward, by nanoGPT's estimate
  int64_t tokens = 0;           ///< of a micro-batch
  int64_t forward_flops = 0;    ///< of its forward, counted
  MemoryPlan memory;
  nn::Summary summary;
};

Plan plan_step(const Run& run);

/// The plan's figures, a line each.
std::string describe(const Plan& plan);

/// `gptlite train --explain`: every option with its source, and the plan. All ranks call it.
std::string explain(const Start& start, const Ranks& ranks);

}  // namespace tessera::gptlite
