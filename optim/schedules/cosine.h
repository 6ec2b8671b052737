#pragma once

#include "optim/schedules/schedule.h"

/// Schedules of half cosines. Each function throws ConfigError for options out of range.
namespace tessera::optim {

/// 1 at `progress` = 0, 0 at 1, half a cosine between.
double half_cosine(double progress);

/// Options of `cosine`.
struct CosineOptions {
  double lr;                 ///< the maximum, after the warm-up
  double min_lr = 0.0;       ///< at `steps` and after
  int64_t warmup_steps = 0;  ///< step s of them has lr (s + 1) / (warmup_steps + 1)
  int64_t steps;             ///< the step at which the half cosine after the warm-up ends
};
/// nanoGPT's schedule: linear warm-up, half a cosine, then min_lr. Groups with other rates have their
/// proportion of each rate, also of min_lr.
Schedule cosine(const CosineOptions& options);

/// Options of `cosine_annealing`.
struct CosineAnnealingOptions {
  std::optional<double> lr = {};  ///< at step 0; nothing: the rate with which each group was made
  int64_t t_max;                  ///< steps from lr to eta_min; as many later it is lr again, and so on
  double eta_min = 0.0;           ///< the lowest rate, the same for every group
};
/// PyTorch's CosineAnnealingLR (Loshchilov and Hutter 2017, without restarts).
Schedule cosine_annealing(const CosineAnnealingOptions& options);

/// Options of `cosine_warm_restarts`.
struct CosineWarmRestartsOptions {
  std::optional<double> lr = {};  ///< at step 0 and each restart; nothing: the rate of each group
  int64_t t_0;                    ///< steps until the first restart
  int64_t t_mult = 1;             ///< each period is longer than the one before by this factor
  double eta_min = 0.0;           ///< the rate to which each period falls, the same for every group
};
/// PyTorch's CosineAnnealingWarmRestarts: SGDR (Loshchilov and Hutter 2017).
Schedule cosine_warm_restarts(const CosineWarmRestartsOptions& options);

}  // namespace tessera::optim
