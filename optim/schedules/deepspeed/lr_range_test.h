#pragma once

#include "optim/schedules/schedule.h"

namespace tessera::optim {

/// Options of `lr_range_test`, with DeepSpeed's names and defaults.
struct LRRangeTestOptions {
  double lr_range_test_min_lr = 1e-3;      ///< at step 0
  int64_t lr_range_test_step_size = 2000;  ///< the steps of an interval
  double lr_range_test_step_rate = 1.0;    ///< in each interval the rate grows by min_lr times it
  bool lr_range_test_staircase = false;    ///< at once at the end of the interval, not on a line
  int64_t last_batch_iteration = -1;       ///< the schedule begins at this position + 1
};

/// DeepSpeed's LRRangeTest (Smith 2018): a growing rate, to find by the loss the range in which a model
/// trains. Every group has the same rate. Step s has the rate of DeepSpeed's iteration s - 1. Throws
/// ConfigError for options out of range.
Schedule lr_range_test(const LRRangeTestOptions& options);

}  // namespace tessera::optim
