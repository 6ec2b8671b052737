#pragma once

#include <string>

#include "dist/pipeline/simulation/timing.h"

namespace tessera::tools {

/// A timeline (SVG) of a schedule: a row for each rank, time to the right. A box is an action with its
/// micro-batch, its color is the kind, lighter for later chunks of the rank; the bubble is the hatched area
/// behind the boxes. Actions without a duration are not drawn. `measured`, a run of the same schedule in
/// milliseconds, is drawn below with a scale of its own.
std::string pipeline_timeline(const dist::PipelineSchedule& schedule, const dist::PipelineTimeline& timeline,
                              const std::string& title, const dist::PipelineTimeline* measured = nullptr);

}  // namespace tessera::tools
