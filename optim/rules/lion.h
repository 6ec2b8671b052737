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

/// Lion (Chen et al. 2023): every element moves by the learning rate, in the direction of the sign of a
/// running mean. State: exp_avg. Throws ConfigError for options out of range, and as `Optimizer` does.
class Lion : public FusedOptimizer<elementwise::LionRule, LionOptions> {
 public:
  /// One group with all parameters, or several groups.
  /// @{
  explicit Lion(const ParameterList& parameters, const Options& options = {})
      : Lion({{parameters, options}}) {}
  explicit Lion(const std::vector<ParameterGroup<Options>>& groups)
      : FusedOptimizer("Lion", groups, &rule,
                       {{{.name = "beta1", .value = &Rule::beta1},
                         {.name = "beta2", .value = &Rule::beta2},
                         {.name = "weight_decay", .value = &Rule::weight_decay},
                         {.name = "maximize", .flag = &Rule::maximize}},
                        &check}) {}
  /// @}

 private:
  using Rule = elementwise::LionRule;
  static Rule rule(const Options& o) {
    return {.beta1 = o.betas[0], .beta2 = o.betas[1], .weight_decay = o.weight_decay, .maximize = o.maximize};
  }
  static void check(const std::string& optimizer, const Rule& rule) {
    require_fraction(optimizer, "betas[0]", rule.beta1);
    require_fraction(optimizer, "betas[1]", rule.beta2);
    require_not_negative(optimizer, "weight_decay", rule.weight_decay);
  }
};

}  // namespace tessera::optim
