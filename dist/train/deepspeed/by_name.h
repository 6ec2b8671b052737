#pragma once  // not in tessera.h

#include <memory>

#include "dist/train/deepspeed/configuration.h"
#include "optim/optimizer.h"
#include "optim/schedules/schedule.h"

namespace tessera::training::deepspeed {

/// The optimizer that a file names (`optim::make_optimizer`). Throws ConfigError or NotBuiltError with the
/// file, the line and the reason.
std::unique_ptr<optim::Optimizer> make_optimizer(const Named& named, const ParameterList& parameters);

/// The schedule that a file names: WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle or LRRangeTest, with
/// DeepSpeed's options. "auto" is `max_steps` for total_num_steps, and the optimizer's rate for
/// warmup_max_lr. Throws ConfigError with the file, the line, what is expected and what came; for an unknown
/// option or name also the nearest one.
optim::Schedule make_schedule(const Named& named, int64_t max_steps);

}  // namespace tessera::training::deepspeed
