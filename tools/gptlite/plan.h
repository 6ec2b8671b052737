#pragma once

#include <string>

#include "nn/summary.h"
#include "tools/gptlite/start.h"

namespace tessera::gptlite {

/// What a training step costs, from a run of the model on meta: no numbers are allocated.
struct Plan {
  int64_t parameters = 0;
  int64_t parameters_per_block = 0;
  int64_t flops_per_token = 0;  ///< forward and backward, by nanoGPT's estimate
  int64_t tokens = 0;           ///< of a micro-batch
  int64_t forward_flops = 0;    ///< of its forward, counted
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t optimizer_bytes = 0;   ///< AdamW's two means, and in mixed precision the f32 masters
  int64_t activation_bytes = 0;  ///< what the forward of a micro-batch keeps for its backward
  nn::Summary summary;

  int64_t total_bytes() const {
    return parameter_bytes + gradient_bytes + optimizer_bytes + activation_bytes;
  }
};

Plan plan_step(const models::GptOptions& model, int64_t micro_batch_size, DType dtype = f32);

/// The plan's numbers, a line each.
std::string describe(const Plan& plan);

/// `gptlite train --explain`: every option with where it came from, and the plan.
std::string explain(const TrainFlags& flags, const Start& start);

}  // namespace tessera::gptlite
