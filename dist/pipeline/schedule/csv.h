#pragma once  // not in tessera.h

#include <string>
#include <string_view>

#include "dist/pipeline/schedule/schedule.h"

namespace tessera::dist {

/// A line for each rank, a cell such as "0F3" for each slot, empty where the rank is idle: the format of
/// torch.distributed.pipelining.
std::string to_csv(const PipelineSchedule& schedule);

/// Reads that format. Stages and micro-batches are one more than the largest in a cell, and a stage is on the
/// rank of its first cell. Throws ConfigError with rank, slot and cell for a cell that is no action or a
/// stage on two ranks, and for a rank or a file without actions. Check the result by `check_schedule`.
PipelineSchedule parse_schedule_csv(std::string_view content, const std::string& name);
/// Reads a file of that format; the schedule has its path as name. Throws as `parse_schedule_csv`, and
/// ConfigError with the path for a file that cannot be read or has bytes that no action has.
PipelineSchedule read_schedule_csv(const std::string& path);

}  // namespace tessera::dist
