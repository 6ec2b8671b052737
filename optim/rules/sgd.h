#pragma once

#include "optim/fused_optimizer.h"
#include "tensor/elementwise/update_rules/sgd.h"

namespace tessera::optim {

/// Options of SGD, with PyTorch's defaults.
struct SGDOptions {
  double lr = 1e-3;       ///< the first learning rate
  double momentum = 0.0;  ///< factor of the velocity of the last step
  double dampening =
      0.0;  ///< the fraction of each gradient, except the first, that does not enter the velocity
  double weight_decay = 0.0;  ///< times the parameter, added to the gradient
  bool nesterov = false;      ///< look ahead by one momentum; needs momentum and no dampening
  bool maximize = false;      ///< climb instead of descending
};

extern template class FusedOptimizer<elementwise::SgdRule, SGDOptions>;

/// Stochastic gradient descent, with momentum (state momentum_buffer) and Nesterov's variant as in Sutskever
/// et al., 2013. Throws ConfigError for options out of range, and as `Optimizer` does.
class SGD : public FusedOptimizer<elementwise::SgdRule, SGDOptions> {
 public:
  /// One group with all parameters, also by their learning rate alone, or several groups.
  /// @{
  explicit SGD(const ParameterList& parameters, const Options& options = {});
  SGD(const ParameterList& parameters, Number auto lr)
      : SGD(parameters, Options{.lr = static_cast<double>(lr)}) {}
  explicit SGD(const std::vector<ParameterGroup<Options>>& groups);
  /// @}
};

}  // namespace tessera::optim
