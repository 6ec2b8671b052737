#pragma once

#include "optim/schedules/schedule.h"

namespace tessera::optim {

/// Options of `one_cycle_decay`, with DeepSpeed's names and defaults.
struct OneCycleDecayOptions {
  double cycle_min_lr;         ///< at the start and the end of the cycle
  double cycle_max_lr;         ///< at its top
  double decay_lr_rate = 0.0;  ///< after the cycle: the rate is divided by 1 + decay_lr_rate intervals
  int64_t cycle_first_step_size = 2000;                  ///< steps of the rise
  std::optional<int64_t> cycle_second_step_size = {};    ///< steps of the fall; nothing: as many
  int64_t cycle_first_stair_count = 0;                   ///< stairs of the rise; 0 and below: a line
  std::optional<int64_t> cycle_second_stair_count = {};  ///< stairs of the fall; nothing: as many
  int64_t decay_step_size = 0;                           ///< steps of an interval; 0: no decay
  bool cycle_momentum = true;   ///< set beta1 too, in the opposite direction, and 0.99 as beta2
  double cycle_min_mom = 0.8;   ///< beta1 at the top of the cycle, and at step 0
  double cycle_max_mom = 0.9;   ///< beta1 at the end of the cycle
  double decay_mom_rate = 0.0;  ///< after the cycle: beta1 is multiplied by 1 + decay_mom_rate intervals
  int64_t last_batch_iteration = -1;  ///< the schedule begins at this position + 1
};

/// DeepSpeed's OneCycle (Smith and Topin 2019): the rate of every group rises on a line, or in stairs, falls
/// back, then decays; `one_cycle` is PyTorch's. With cycle_momentum it also sets the betas of an optimizer
/// that has them. A growing beta1 may reach 1, which `apply` refuses. Step s has the rate of DeepSpeed's
/// iteration s - 1. Throws ConfigError for options out of range.
Schedule one_cycle_decay(const OneCycleDecayOptions& options);

}  // namespace tessera::optim
