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
};

/// Adagrad (Duchi, Hazan and Singer 2011). State: sum, of all squared gradients. Throws ConfigError for
/// options out of range, and as `Optimizer` does.
class Adagrad : public FusedOptimizer<elementwise::AdagradRule> {
 public:
  using Options = AdagradOptions;  ///< those of a group
  /// One group with all parameters, or several groups.
  /// @{
  explicit Adagrad(const ParameterList& parameters, const Options& options = {})
      : Adagrad({{parameters, options}}) {}
  explicit Adagrad(const std::vector<ParameterGroup<Options>>& groups)
      : FusedOptimizer("Adagrad", {{{.name = "lr_decay", .value = &Rule::lr_decay},
                                    {.name = "eps", .value = &Rule::eps},
                                    {.name = "weight_decay", .value = &Rule::weight_decay}},
                                   &check}) {
    for (const auto& [parameters, options] : groups) {
      require_not_negative(name(), "initial_accumulator_value", options.initial_accumulator_value);
      initial_.push_back(options.initial_accumulator_value);
      add_group(parameters, options.lr,
                {.lr_decay = options.lr_decay, .eps = options.eps, .weight_decay = options.weight_decay});
    }
    require_parameters();
  }
  /// @}

 protected:
  std::vector<Slot> slots(int group) const override {
    std::vector<Slot> slots = FusedOptimizer::slots(group);
    slots[0].initial = initial_[group];
    return slots;
  }

 private:
  using Rule = elementwise::AdagradRule;
  static void check(const std::string& optimizer, const Rule& rule) {
    require_not_negative(optimizer, "lr_decay", rule.lr_decay);
    require_not_negative(optimizer, "eps", rule.eps);
    require_not_negative(optimizer, "weight_decay", rule.weight_decay);
  }

  std::vector<double> initial_;  // value of the accumulators, per group
};

}  // namespace tessera::optim
