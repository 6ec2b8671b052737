#pragma once

#include "optim/fused_optimizer.h"
#include "tensor/elementwise/update_rules/adagrad.h"

namespace tessera::optim {

/// Options of Adagrad, with PyTorch's defaults.
struct AdagradOptions {
  double lr = 1e-2;                        ///< the first learning rate
  double lr_decay = 0.0;                   ///< the rate of step t (from 0) is lr / (1 + t lr_decay)
  double eps = 1e-10;                      ///< added to the root
  double weight_decay = 0.0;               ///< times the parameter, added to the gradient
  double initial_accumulator_value = 0.0;  ///< every element of `sum` before the first step
  bool maximize = false;                   ///< climb instead of descending
};

extern template class FusedOptimizer<elementwise::AdagradRule, AdagradOptions>;

/// Adagrad (Duchi, Hazan and Singer 2011). State: sum, of all squared gradients. Throws ConfigError for
/// options out of range, and as `Optimizer` does.
class Adagrad : public FusedOptimizer<elementwise::AdagradRule, AdagradOptions> {
 public:
  /// One group with all parameters, also by their learning rate alone, or several groups.
  /// @{
  explicit Adagrad(const ParameterList& parameters, const Options& options = {});
  Adagrad(const ParameterList& parameters, Number auto lr)
      : Adagrad(parameters, Options{.lr = static_cast<double>(lr)}) {}
  explicit Adagrad(const std::vector<ParameterGroup<Options>>& groups);
  /// @}

 protected:
  std::vector<StateTensor> state_tensors(int group) const override;
};

}  // namespace tessera::optim
