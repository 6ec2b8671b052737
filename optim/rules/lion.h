#pragma once

#include <array>

#include "optim/fused_optimizer.h"
#include "tensor/elementwise/update_rules/lion.h"

namespace tessera::optim {

/// Options of Lion, with the paper's defaults.
struct LionOptions {
  double lr = 1e-4;                           ///< the first learning rate: a third to a tenth of AdamW's
  std::array<double, 2> betas = {0.9, 0.99};  ///< shares of the mean in direction and mean
  double weight_decay = 0.0;  ///< times lr, the fraction of the parameter subtracted in each step
  bool maximize = false;      ///< climb instead of descending
};

extern template class FusedOptimizer<elementwise::LionRule, LionOptions>;

/// Lion (Chen et al. 2023): every element moves by the learning rate, in the direction of the sign of a
/// running mean. State: exp_avg. Throws ConfigError for options out of range, and as `Optimizer` does.
class Lion : public FusedOptimizer<elementwise::LionRule, LionOptions> {
 public:
  /// One group with all parameters, also by their learning rate alone, or several groups.
  /// @{
  explicit Lion(const ParameterList& parameters, const Options& options = {});
  Lion(const ParameterList& parameters, Number auto lr)
      : Lion(parameters, Options{.lr = static_cast<double>(lr)}) {}
  explicit Lion(const std::vector<ParameterGroup<Options>>& groups);
  /// @}
};

}  // namespace tessera::optim
