#pragma once  // internal

#include <cstdint>

#include "optim/schedules/schedule.h"
#include "optim/schedules/schedule_checks.h"

namespace tessera::optim {

/// The schedule at the position that follows DeepSpeed's `last_batch_iteration`. Throws ConfigError for one
/// below -1.
inline Schedule resumed_after(int64_t last_batch_iteration, Schedule schedule) {
  require_steps(schedule.name().c_str(), "last_batch_iteration", last_batch_iteration, -1);
  schedule.set_position(last_batch_iteration + 1);
  return schedule;
}

}  // namespace tessera::optim
