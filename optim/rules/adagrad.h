#pragma once

#include "optim/fused_optimizer.h"
#include "tensor/elementwise/update_rules/adagrad.h"

namespace tessera::optim {

/// Options of Adagrad, with PyTorch's defaults.
struct AdagradOptions {
  double lr = 1e-2;                        ///< the first learning rate
  double lr_decay = 0.0;                   ///< the rate of step t (from 0) is lr / (1 + t lr_decay)
  double eps = 1e-10;                      ///< added to the root
  double weight_decay = 0.0;               ///< times the parameter, added to the gradient
  double initial_accumulator_value = 0.0;  ///< every element of `sum` before the first step
  bool maximize = false;                   ///< climb instead of descending
};

/// Adagrad (Duchi, Hazan and Singer 2011). State: sum, of all squared gradients. Throws ConfigError for
/// options out of range, and as `Optimizer` does.
class Adagrad : public FusedOptimizer<elementwise::AdagradRule, AdagradOptions> {
 public:
  /// One group with all parameters, or several groups.
  /// @{
  explicit Adagrad(const ParameterList& parameters, const Options& options = {})
      : Adagrad({{parameters, options}}) {}
  explicit Adagrad(const std::vector<ParameterGroup<Options>>& groups)
      : FusedOptimizer("Adagrad", groups, &rule,
                       {{{.name = "lr_decay", .value = &Rule::lr_decay},
                         {.name = "eps", .value = &Rule::eps},
                         {.name = "weight_decay", .value = &Rule::weight_decay},
                         {.name = "maximize", .flag = &Rule::maximize}},
                        &check}) {}
  /// @}

 protected:
  std::vector<Slot> slots(int group) const override {
    std::vector<Slot> slots = FusedOptimizer::slots(group);
    slots[0].initial = group_rule(group).initial_accumulator_value;
    return slots;
  }

 private:
  using Rule = elementwise::AdagradRule;
  static Rule rule(const Options& o) {
    return {.lr_decay = o.lr_decay,
            .eps = o.eps,
            .weight_decay = o.weight_decay,
            .initial_accumulator_value = o.initial_accumulator_value,
            .maximize = o.maximize};
  }
  static void check(const std::string& optimizer, const Rule& rule) {
    require_not_negative(optimizer, "lr_decay", rule.lr_decay);
    require_not_negative(optimizer, "eps", rule.eps);
    require_not_negative(optimizer, "weight_decay", rule.weight_decay);
    require_not_negative(optimizer, "initial_accumulator_value", rule.initial_accumulator_value);
  }
};

}  // namespace tessera::optim
