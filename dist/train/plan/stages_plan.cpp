#include "dist/train/plan/stages_plan.h"

#include <set>

#include "dist/train/engine/recomputation.h"
#include "dist/train/engine/sharding_options.h"
#include "tensor/error.h"

namespace tessera::training {
namespace {

/// The kind of the modules that are units; empty where there are none.
std::string unit_kind(nn::Module& module, const dist::UnitPolicy& units) {
  std::set<std::string> kinds;
  for (const nn::Module* unit : units.choose(module)) kinds.insert(unit->kind());
  require<NotBuiltError>(kinds.size() <= 1, "a plan of a step in stages: units of several kinds (",
                         kinds.empty() ? "" : *kinds.begin(), ", ", kinds.empty() ? "" : *kinds.rbegin(),
                         ") are not there yet");
  return kinds.empty() ? "" : *kinds.begin();
}

}  // namespace

dist::SimulationOptions simulation_options(nn::Module& module, const TrainingConfig& config,
                                           const dist::UnitPolicy& units, int world_size) {
  const StageOptions& stages = config.stages;
  const dist::EstimateOptions ranks = estimate_options(config, data_ranks(stages, world_size));
  return {.stages = stages.stages,
          .replicas = static_cast<int>(ranks.replicas),
          .shards = static_cast<int>(ranks.shards),
          .strategy = config.strategy,
          .schedule = stages.schedule,
          .chunks = stages.chunks,
          .is_pipeline = true,
          .table = stages.schedule_file.empty()
                       ? std::nullopt
                       : std::optional(step_schedule(stages, config.accumulation_steps)),
          .micro_batches = static_cast<int>(config.accumulation_steps),
          .partition = dist::parse_partition_method(stages.partition),
          .checkpointing = checkpointing_of(config),
          .unit_kind = unit_kind(module, units),
          .compute = ranks.compute,
          .backward_prefetch = config.backward_prefetch};
}

dist::SimulatedStep plan_in_stages(dist::ModelProfile& profile, const dist::SimulationOptions& options) {
  return simulate_step(profile, options,
                       {.flops_per_second = 1, .memory_bytes_per_second = 1, .link = {1, 0}});
}

int64_t kept_by_forward(dist::ModelProfile& profile, const dist::SimulatedStep& step,
                        const dist::SimulationOptions& options, int pipeline_rank) {
  int64_t bytes = 0;
  for (size_t s = 0; s < step.schedule.stage_ranks.size(); ++s)
    if (step.schedule.stage_ranks[s] == pipeline_rank)
      bytes += profile.stage(step.boundaries[s], step.boundaries[s + 1], options.checkpointing).kept;
  return bytes;
}

}  // namespace tessera::training
