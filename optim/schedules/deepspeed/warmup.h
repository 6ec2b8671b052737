#pragma once

#include "optim/schedules/schedule.h"

/// DeepSpeed's warm-ups, with its names and defaults of options. Step s has the rate of DeepSpeed's iteration
/// s - 1: DeepSpeed sets the first rate before its iteration 0. Each function throws ConfigError for options
/// out of range.
namespace tessera::optim {

/// The shape of the rise.
enum class WarmupType {
  log,    ///< in proportion to log(iteration + 1)
  linear  ///< in proportion to the iteration
};

/// Options of `warmup`.
struct WarmupOptions {
  double warmup_min_lr = 0.0;                ///< at steps 0 and 1
  std::optional<double> warmup_max_lr = {};  ///< after it; nothing: the rate with which each group was made
  int64_t warmup_num_steps = 1000;           ///< iterations from the one rate to the other; 1 counts as 2
  WarmupType warmup_type = WarmupType::log;  ///< the shape of the rise
  int64_t last_batch_iteration = -1;         ///< the schedule begins at this position + 1
};
/// DeepSpeed's WarmupLR: from warmup_min_lr to warmup_max_lr, then the same rate. A warmup_max_lr is the rate
/// of every group.
Schedule warmup(const WarmupOptions& options);

/// Options of `warmup_decay`.
struct WarmupDecayOptions {
  int64_t total_num_steps;                   ///< the iteration at which the rate is warmup_min_lr again
  double warmup_min_lr = 0.0;                ///< as in WarmupOptions
  double warmup_max_lr = 0.001;              ///< as in WarmupOptions
  int64_t warmup_num_steps = 1000;           ///< as in WarmupOptions
  WarmupType warmup_type = WarmupType::log;  ///< as in WarmupOptions
  int64_t last_batch_iteration = -1;         ///< as in WarmupOptions
};
/// DeepSpeed's WarmupDecayLR: the same warm-up, then a line from warmup_max_lr to warmup_min_lr at iteration
/// total_num_steps, then the same rate. Every group has the same rate.
Schedule warmup_decay(const WarmupDecayOptions& options);

/// Options of `warmup_cosine`.
struct WarmupCosineOptions {
  std::optional<double> lr = {};             ///< after the warm-up; nothing: the rate of each group
  int64_t total_num_steps;                   ///< the half cosine ends at the iteration before it
  double warmup_min_ratio = 0.0;             ///< the rate at step 1 is lr times it; at step 0 it is 0
  int64_t warmup_num_steps = 1000;           ///< as in WarmupOptions
  double cos_min_ratio = 0.0001;             ///< the rate at the end is lr times it
  WarmupType warmup_type = WarmupType::log;  ///< as in WarmupOptions
  int64_t last_batch_iteration = -1;         ///< as in WarmupOptions
};
/// DeepSpeed's WarmupCosineLR: a warm-up to lr, half a cosine, then lr times cos_min_ratio.
Schedule warmup_cosine(const WarmupCosineOptions& options);

}  // namespace tessera::optim
