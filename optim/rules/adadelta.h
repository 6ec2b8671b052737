#pragma once

#include "optim/fused_optimizer.h"
#include "tensor/elementwise/update_rules/adadelta.h"

namespace tessera::optim {

/// Options of Adadelta, with PyTorch's defaults.
struct AdadeltaOptions {
  double lr = 1.0;            ///< the first learning rate: a factor of the rule's own changes
  double rho = 0.9;           ///< decay of both running means
  double eps = 1e-6;          ///< added to both means before their roots
  double weight_decay = 0.0;  ///< times the parameter, added to the gradient
  bool maximize = false;      ///< climb instead of descending
};

extern template class FusedOptimizer<elementwise::AdadeltaRule, AdadeltaOptions>;

/// Adadelta (Zeiler 2012). State: square_avg, the running mean of squared gradients, and acc_delta, that of
/// squared changes. Throws ConfigError for options out of range, and as `Optimizer` does.
class Adadelta : public FusedOptimizer<elementwise::AdadeltaRule, AdadeltaOptions> {
 public:
  /// One group with all parameters, also by their learning rate alone, or several groups.
  /// @{
  explicit Adadelta(const ParameterList& parameters, const Options& options = {});
  Adadelta(const ParameterList& parameters, Number auto lr)
      : Adadelta(parameters, Options{.lr = static_cast<double>(lr)}) {}
  explicit Adadelta(const std::vector<ParameterGroup<Options>>& groups);
  /// @}
};

}  // namespace tessera::optim
