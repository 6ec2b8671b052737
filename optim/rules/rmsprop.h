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

/// RMSprop (Tieleman and Hinton 2012; centered: Graves 2013). State: square_avg, with momentum
/// momentum_buffer, centered grad_avg. Throws ConfigError for options out of range, and as `Optimizer` does.
class RMSprop : public FusedOptimizer<elementwise::RmspropRule, RMSpropOptions> {
 public:
  /// One group with all parameters, or several groups.
  /// @{
  explicit RMSprop(const ParameterList& parameters, const Options& options = {})
      : RMSprop({{parameters, options}}) {}
  explicit RMSprop(const std::vector<ParameterGroup<Options>>& groups)
      : FusedOptimizer("RMSprop", groups, &rule,
                       {{{.name = "alpha", .value = &Rule::alpha},
                         {.name = "eps", .value = &Rule::eps},
                         {.name = "weight_decay", .value = &Rule::weight_decay},
                         {.name = "momentum", .value = &Rule::momentum},
                         {.name = "centered", .flag = &Rule::centered},
                         {.name = "maximize", .flag = &Rule::maximize}},
                        &check}) {}
  /// @}

 private:
  using Rule = elementwise::RmspropRule;
  static Rule rule(const Options& o) {
    return {.alpha = o.alpha,
            .eps = o.eps,
            .weight_decay = o.weight_decay,
            .momentum = o.momentum,
            .centered = o.centered,
            .maximize = o.maximize};
  }
  static void check(const std::string& optimizer, const Rule& rule) {
    require_fraction(optimizer, "alpha", rule.alpha);
    require_not_negative(optimizer, "eps", rule.eps);
    require_not_negative(optimizer, "weight_decay", rule.weight_decay);
    require_not_negative(optimizer, "momentum", rule.momentum);
  }
};

}  // namespace tessera::optim
