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

/// Stochastic gradient descent, with momentum (state momentum_buffer) and Nesterov's variant as in Sutskever
/// et al., 2013. Throws ConfigError for options out of range, and as `Optimizer` does.
class SGD : public FusedOptimizer<elementwise::SgdRule, SGDOptions> {
 public:
  /// One group with all parameters, or several groups.
  /// @{
  explicit SGD(const ParameterList& parameters, const Options& options = {}) : SGD({{parameters, options}}) {}
  explicit SGD(const std::vector<ParameterGroup<Options>>& groups)
      : FusedOptimizer("SGD", groups, &rule,
                       {{{.name = "momentum", .value = &Rule::momentum},
                         {.name = "dampening", .value = &Rule::dampening},
                         {.name = "weight_decay", .value = &Rule::weight_decay},
                         {.name = "nesterov", .flag = &Rule::nesterov},
                         {.name = "maximize", .flag = &Rule::maximize}},
                        &check}) {}
  /// @}

 private:
  using Rule = elementwise::SgdRule;
  static Rule rule(const Options& o) {
    return {.momentum = o.momentum,
            .dampening = o.dampening,
            .weight_decay = o.weight_decay,
            .nesterov = o.nesterov,
            .maximize = o.maximize};
  }
  static void check(const std::string& optimizer, const Rule& rule) {
    require_not_negative(optimizer, "momentum", rule.momentum);
    require_not_negative(optimizer, "weight_decay", rule.weight_decay);
    require<ConfigError>(!rule.nesterov || (rule.momentum > 0.0 && rule.dampening == 0.0), optimizer,
                         ": nesterov needs momentum and no dampening, got momentum ", rule.momentum,
                         " and dampening ", rule.dampening);
  }
};

}  // namespace tessera::optim
