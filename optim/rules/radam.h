#pragma once

#include <array>

#include "optim/fused_optimizer.h"
#include "tensor/elementwise/update_rules/radam.h"

namespace tessera::optim {

/// Options of RAdam, with PyTorch's defaults.
struct RAdamOptions {
  double lr = 1e-3;                            ///< the first learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the means of g and of g^2
  double eps = 1e-8;                    ///< added to the root of the second, before its bias correction
  double weight_decay = 0.0;            ///< times the parameter, added to the gradient
  bool decoupled_weight_decay = false;  ///< decay as AdamW does
  bool maximize = false;                ///< climb instead of descending
};

extern template class FusedOptimizer<elementwise::RadamRule, RAdamOptions>;

/// RAdam (Liu et al. 2020): Adam with a rectified rate, without warm-up. State: exp_avg and exp_avg_sq.
/// Throws ConfigError for options out of range, and as `Optimizer` does.
class RAdam : public FusedOptimizer<elementwise::RadamRule, RAdamOptions> {
 public:
  /// One group with all parameters, also by their learning rate alone, or several groups.
  /// @{
  explicit RAdam(const ParameterList& parameters, const Options& options = {});
  RAdam(const ParameterList& parameters, Number auto lr)
      : RAdam(parameters, Options{.lr = static_cast<double>(lr)}) {}
  explicit RAdam(const std::vector<ParameterGroup<Options>>& groups);
  /// @}
};

}  // namespace tessera::optim
