#pragma once

#include <string>

#include "dist/fsdp/estimate.h"
#include "tools/gptlite/memory_plan.h"
#include "tools/gptlite/ranks.h"
#include "tools/gptlite/run.h"

namespace tessera::gptlite {

/// What a sharded run's strategy costs the rank whose index along the mesh's dimension "shard" is `shard`.
dist::Estimate estimate_run(const Run& run, int shard = 0);

/// What the formulas add to what one rank's own share of a step takes: model state by shard, and what is
/// gathered and reduced.
PeakMemory with_estimate(PeakMemory alone, const dist::Estimate& estimate);

/// `--explain` of a sharded run: its ranks' options with where each came from, the mesh, the units, the bytes
/// of each rank and the traffic of a step. All ranks call it.
std::string explain_ranks(const TrainFlags& flags, const Run& run, const Ranks& ranks);

}  // namespace tessera::gptlite
