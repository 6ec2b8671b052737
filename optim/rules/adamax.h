#pragma once

#include <array>

#include "optim/fused_optimizer.h"
#include "tensor/elementwise/update_rules/adamax.h"

namespace tessera::optim {

/// Options of Adamax, with PyTorch's defaults.
struct AdamaxOptions {
  double lr = 2e-3;                            ///< the first learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the mean and of the maximum
  double eps = 1e-8;                           ///< added to the magnitude
  double weight_decay = 0.0;                   ///< times the parameter, added to the gradient
  bool maximize = false;                       ///< climb instead of descending
};

extern template class FusedOptimizer<elementwise::AdamaxRule, AdamaxOptions>;

/// Adamax (Kingma and Ba 2015, algorithm 2). State: exp_avg, and exp_inf, the decaying maximum of the
/// gradient's magnitude. Throws ConfigError for options out of range, and as `Optimizer` does.
class Adamax : public FusedOptimizer<elementwise::AdamaxRule, AdamaxOptions> {
 public:
  /// One group with all parameters, also by their learning rate alone, or several groups.
  /// @{
  explicit Adamax(const ParameterList& parameters, const Options& options = {});
  Adamax(const ParameterList& parameters, Number auto lr)
      : Adamax(parameters, Options{.lr = static_cast<double>(lr)}) {}
  explicit Adamax(const std::vector<ParameterGroup<Options>>& groups);
  /// @}
};

}  // namespace tessera::optim
