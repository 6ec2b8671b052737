#pragma once

#include <string>

#include "dist/fsdp/estimate.h"
#include "tools/gptlite/plan/memory_plan.h"
#include "tools/gptlite/ranks.h"
#include "tools/gptlite/run.h"

namespace tessera::gptlite {

/// The memory and traffic of a sharded run's strategy, for the rank with index `shard` along the mesh's
/// dimension "shard".
dist::Estimate estimate_run(const Run& run, int shard = 0);

/// The plan `alone` of one rank's share of a step, with model state and communication replaced by the
/// estimate: shards, and what is gathered and reduced.
PeakMemory with_estimate(PeakMemory alone, const dist::Estimate& estimate);

/// `--explain` of a sharded run: the mesh, the units, the bytes of each rank and the traffic of a step. All
/// ranks call it.
std::string explain_ranks(const Run& run, const Ranks& ranks);

}  // namespace tessera::gptlite
