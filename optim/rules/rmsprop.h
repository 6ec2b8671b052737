#pragma once

#include "optim/fused_optimizer.h"
#include "tensor/elementwise/update_rules/rmsprop.h"

namespace tessera::optim {

/// Options of RMSprop, with PyTorch's defaults.
struct RMSpropOptions {
  double lr = 1e-2;           ///< the first learning rate
  double alpha = 0.99;        ///< decay of the running means
  double eps = 1e-8;          ///< added to the root
  double weight_decay = 0.0;  ///< times the parameter, added to the gradient
  double momentum = 0.0;      ///< factor of the momentum buffer of the last step; 0: there is none
  bool centered = false;      ///< divide by the standard deviation instead of the root mean square
  bool maximize = false;      ///< climb instead of descending
};

extern template class FusedOptimizer<elementwise::RmspropRule, RMSpropOptions>;

/// RMSprop (Tieleman and Hinton 2012; centered: Graves 2013). State: square_avg, with momentum
/// momentum_buffer, centered grad_avg. Throws ConfigError for options out of range, and as `Optimizer` does.
class RMSprop : public FusedOptimizer<elementwise::RmspropRule, RMSpropOptions> {
 public:
  /// One group with all parameters, also by their learning rate alone, or several groups.
  /// @{
  explicit RMSprop(const ParameterList& parameters, const Options& options = {});
  RMSprop(const ParameterList& parameters, Number auto lr)
      : RMSprop(parameters, Options{.lr = static_cast<double>(lr)}) {}
  explicit RMSprop(const std::vector<ParameterGroup<Options>>& groups);
  /// @}
};

}  // namespace tessera::optim
