#pragma once

#include "optim/schedules/schedule.h"

namespace tessera::optim {

/// The shape of a phase of `one_cycle`: half a cosine, or a line.
enum class Anneal { cosine, linear };

/// Options of `one_cycle`.
struct OneCycleOptions {
  double max_lr;                   ///< the rate at the end of the rise
  int64_t steps;                   ///< in total; the rate of the last one stays
  double rise = 0.3;               ///< the fraction of them in which the rate rises
  Anneal anneal = Anneal::cosine;  ///< the shape of each phase
  double div_factor = 25.0;        ///< the rate starts at max_lr / div_factor
  double final_div_factor = 1e4;   ///< and ends at its starting rate / final_div_factor
  bool three_phase =
      false;  ///< back to the starting rate in `rise` of the steps, then to the end; else one fall
};
/// The 1cycle policy (Smith and Topin 2019), PyTorch's OneCycleLR. Groups with other rates have their
/// proportion of each rate. Throws ConfigError for options out of range.
Schedule one_cycle(const OneCycleOptions& options);

}  // namespace tessera::optim
