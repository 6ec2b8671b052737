#pragma once

#include <string>
#include <vector>

#include "dist/pipeline/simulation/timing.h"

namespace tessera::tools {

/// The newest step of a run that traces in Chrome's format hold whole: the compute actions of `schedule`, in
/// milliseconds since the first one began. A file has the ranks of one process; of several files the first
/// spans count as begun together, which holds to about the time of a message, since ranks begin a step
/// together. Throws ConfigError for a file that cannot be read or is no trace, and, naming rank and action,
/// where the ranks did not run the actions of the schedule.
dist::PipelineTimeline read_traced_step(const std::vector<std::string>& paths,
                                        const dist::PipelineSchedule& schedule);

}  // namespace tessera::tools
