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

/// RAdam (Liu et al. 2020): Adam with a rectified rate, without warm-up. State: exp_avg and exp_avg_sq.
/// Throws ConfigError for options out of range, and as `Optimizer` does.
class RAdam : public FusedOptimizer<elementwise::RadamRule, RAdamOptions> {
 public:
  /// One group with all parameters, or several groups.
  /// @{
  explicit RAdam(const ParameterList& parameters, const Options& options = {})
      : RAdam({{parameters, options}}) {}
  explicit RAdam(const std::vector<ParameterGroup<Options>>& groups)
      : FusedOptimizer("RAdam", groups, &rule,
                       {{{.name = "beta1", .value = &Rule::beta1},
                         {.name = "beta2", .value = &Rule::beta2},
                         {.name = "eps", .value = &Rule::eps},
                         {.name = "weight_decay", .value = &Rule::weight_decay},
                         {.name = "decoupled_weight_decay", .flag = &Rule::decoupled},
                         {.name = "maximize", .flag = &Rule::maximize}},
                        &check}) {}
  /// @}

 private:
  using Rule = elementwise::RadamRule;
  static Rule rule(const Options& o) {
    return {.beta1 = o.betas[0],
            .beta2 = o.betas[1],
            .eps = o.eps,
            .weight_decay = o.weight_decay,
            .decoupled = o.decoupled_weight_decay,
            .maximize = o.maximize};
  }
  static void check(const std::string& optimizer, const Rule& rule) {
    require_fraction(optimizer, "betas[0]", rule.beta1);
    require_fraction(optimizer, "betas[1]", rule.beta2);
    require_not_negative(optimizer, "eps", rule.eps);
    require_not_negative(optimizer, "weight_decay", rule.weight_decay);
  }
};

}  // namespace tessera::optim
