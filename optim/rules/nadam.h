#pragma once

#include <array>

#include "optim/fused_optimizer.h"
#include "tensor/elementwise/update_rules/nadam.h"

namespace tessera::optim {

/// Options of NAdam, with PyTorch's defaults.
struct NAdamOptions {
  double lr = 2e-3;                            ///< the first learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the means of g and of g^2
  double eps = 1e-8;                           ///< added to the root of the second, after its bias correction
  double weight_decay = 0.0;                   ///< times the parameter, added to the gradient
  double momentum_decay = 4e-3;  ///< the momentum of step t is betas[0] (1 - 0.96^(t momentum_decay) / 2)
  bool decoupled_weight_decay = false;  ///< decay as AdamW does
  bool maximize = false;                ///< climb instead of descending
};

extern template class FusedOptimizer<elementwise::NadamRule, NAdamOptions>;

/// NAdam (Dozat 2016): Adam with Nesterov's look-ahead. State: exp_avg and exp_avg_sq; PyTorch's mu_product
/// is computed from the step. Throws ConfigError for options out of range, and as `Optimizer` does.
class NAdam : public FusedOptimizer<elementwise::NadamRule, NAdamOptions> {
 public:
  /// One group with all parameters, also by their learning rate alone, or several groups.
  /// @{
  explicit NAdam(const ParameterList& parameters, const Options& options = {});
  NAdam(const ParameterList& parameters, Number auto lr)
      : NAdam(parameters, Options{.lr = static_cast<double>(lr)}) {}
  explicit NAdam(const std::vector<ParameterGroup<Options>>& groups);
  /// @}
};

}  // namespace tessera::optim
