#pragma once

#include <vector>

#include "optim/schedules/schedule.h"

/// Schedules made of others. The parts have no `lr` of their own, or the same one; it is that of the result.
/// Each function throws ConfigError for parts that do not fit.
namespace tessera::optim {

/// One schedule after the other, PyTorch's SequentialLR: part k + 1 begins at step milestones[k], with its
/// own step 0. Milestones are above 0 and increase; there is one less than parts.
///
///     sequential({linear_warmup({.warmup_steps = 100}), cosine_annealing({.t_max = 1900})}, {100})
Schedule sequential(std::vector<Schedule> parts, std::vector<int64_t> milestones);

/// All schedules at once: each takes the rate of the one before as its own. For schedules whose rates are
/// multiples of `lr` it is PyTorch's ChainedScheduler: the product of their factors.
Schedule chained(std::vector<Schedule> parts);

}  // namespace tessera::optim
