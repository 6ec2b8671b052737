#pragma once  // not in tessera.h

#include <string>

#include "dist/pipeline/schedule/schedule.h"

namespace tessera::dist {

/// The schedule as lines of text: a row for each rank, a column for each slot, "." where a rank is idle. A
/// cell is the kind and the micro-batch, "F3", and the chunk where ranks hold several, "F3.1".
std::string schedule_table(const PipelineSchedule& schedule);

}  // namespace tessera::dist
