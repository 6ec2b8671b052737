#pragma once  // not in tessera.h

#include <cstdint>
#include <optional>
#include <string>

#include "dist/fsdp/estimate.h"
#include "dist/fsdp/strategy.h"
#include "dist/simulate/step.h"
#include "dist/train/plan/peak_memory.h"

namespace tessera::training {

/// The cost of a training step of a rank, before anything is computed: `Trainer::plan`.
struct StepPlan {
  int64_t parameters = 0;           ///< values in the module's parameters, each once
  int64_t ranks = 1;                ///< that share a step
  int64_t micro_batches = 1;        ///< of a step on a rank
  int64_t micro_batch_samples = 0;  ///< that a rank computes at once
  /// Of matrix products and attention in a micro-batch's `training_step`, counted.
  int64_t forward_flops = 0;
  int64_t kept_by_forward = 0;  ///< bytes of activations of a micro-batch, kept until its backward
  PeakMemory peak = {};  ///< of a rank; of a sharded run with model state and communication by `sharding`
  dist::Strategy strategy = dist::Strategy::no_shard;  ///< of a run on ranks
  std::optional<dist::Estimate> sharding = {};         ///< of the first rank; nothing without ranks
  /// Of a run in stages, instead of `sharding`: layers, schedule, memory and traffic of each rank. Its
  /// seconds are those of no machine.
  std::optional<dist::SimulatedStep> stages = {};
};

/// The plan's figures, a line each; over ranks first the units, and what each rank holds and sends.
std::string describe(const StepPlan& plan);

}  // namespace tessera::training
