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

/// Adamax (Kingma and Ba 2015, algorithm 2). State: exp_avg, and exp_inf, the decaying maximum of the
/// gradient's magnitude. Throws ConfigError for options out of range, and as `Optimizer` does.
class Adamax : public FusedOptimizer<elementwise::AdamaxRule, AdamaxOptions> {
 public:
  /// One group with all parameters, or several groups.
  /// @{
  explicit Adamax(const ParameterList& parameters, const Options& options = {})
      : Adamax({{parameters, options}}) {}
  explicit Adamax(const std::vector<ParameterGroup<Options>>& groups)
      : FusedOptimizer("Adamax", groups, &rule,
                       {{{.name = "beta1", .value = &Rule::beta1},
                         {.name = "beta2", .value = &Rule::beta2},
                         {.name = "eps", .value = &Rule::eps},
                         {.name = "weight_decay", .value = &Rule::weight_decay},
                         {.name = "maximize", .flag = &Rule::maximize}},
                        &check}) {}
  /// @}

 private:
  using Rule = elementwise::AdamaxRule;
  static Rule rule(const Options& o) {
    return {.beta1 = o.betas[0],
            .beta2 = o.betas[1],
            .eps = o.eps,
            .weight_decay = o.weight_decay,
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
