#pragma once

#include <array>

#include "optim/fused_optimizer.h"
#include "tensor/elementwise/update_rules/adam.h"

namespace tessera::optim {

/// Options of Adam, with PyTorch's defaults.
struct AdamOptions {
  double lr = 1e-3;                            ///< the first learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the means of g and of g^2
  double eps = 1e-8;                           ///< added to the root of the second, after its bias correction
  double weight_decay = 0.0;                   ///< times the parameter, added to the gradient
  bool amsgrad = false;                        ///< divide by the largest second mean so far
  bool decoupled_weight_decay = false;         ///< decay as AdamW does
  bool maximize = false;                       ///< climb instead of descending
};

/// Options of AdamW, with PyTorch's defaults.
struct AdamWOptions {
  double lr = 1e-3;                            ///< the first learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< as in AdamOptions
  double eps = 1e-8;                           ///< as in AdamOptions
  double weight_decay = 1e-2;  ///< times lr, the fraction of the parameter subtracted in each step
  bool amsgrad = false;        ///< as in AdamOptions
  bool maximize = false;       ///< as in AdamOptions
};

/// What Adam and AdamW share: the state exp_avg, exp_avg_sq and, for amsgrad, max_exp_avg_sq.
template <class Options>
class AdamBase : public FusedOptimizer<elementwise::AdamRule, Options> {
 protected:
  /// `rule`: Adam's or AdamW's.
  AdamBase(std::string name, const std::vector<ParameterGroup<Options>>& groups,
           elementwise::AdamRule (*rule)(const Options&))
      : FusedOptimizer<elementwise::AdamRule, Options>(
            std::move(name), groups, rule,
            {{{.name = "beta1", .value = &Rule::beta1},
              {.name = "beta2", .value = &Rule::beta2},
              {.name = "eps", .value = &Rule::eps},
              {.name = "weight_decay", .value = &Rule::weight_decay},
              {.name = "amsgrad", .flag = &Rule::amsgrad},
              {.name = "decoupled_weight_decay", .flag = &Rule::decoupled},
              {.name = "maximize", .flag = &Rule::maximize}},
             &check}) {}

  /// The rule with the options.
  static elementwise::AdamRule rule_of(const Options& o, bool decoupled) {
    return {.beta1 = o.betas[0],
            .beta2 = o.betas[1],
            .eps = o.eps,
            .weight_decay = o.weight_decay,
            .decoupled = decoupled,
            .amsgrad = o.amsgrad,
            .maximize = o.maximize};
  }

 private:
  using Rule = elementwise::AdamRule;
  static void check(const std::string& optimizer, const Rule& rule) {
    require_fraction(optimizer, "betas[0]", rule.beta1);
    require_fraction(optimizer, "betas[1]", rule.beta2);
    require_not_negative(optimizer, "eps", rule.eps);
    require_not_negative(optimizer, "weight_decay", rule.weight_decay);
  }
};

/// Adam: A Method for Stochastic Optimization (Kingma and Ba 2015). Throws ConfigError for options out of
/// range, and as `Optimizer` does.
class Adam : public AdamBase<AdamOptions> {
 public:
  /// One group with all parameters, or several groups.
  /// @{
  explicit Adam(const ParameterList& parameters, const Options& options = {})
      : Adam({{parameters, options}}) {}
  explicit Adam(const std::vector<ParameterGroup<Options>>& groups)
      : AdamBase("Adam", groups, [](const Options& o) { return rule_of(o, o.decoupled_weight_decay); }) {}
  /// @}
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019). Throws as Adam.
class AdamW : public AdamBase<AdamWOptions> {
 public:
  /// One group with all parameters, or several groups.
  /// @{
  explicit AdamW(const ParameterList& parameters, const Options& options = {})
      : AdamW({{parameters, options}}) {}
  explicit AdamW(const std::vector<ParameterGroup<Options>>& groups)
      : AdamBase("AdamW", groups, [](const Options& o) { return rule_of(o, true); }) {}
  /// @}
};

}  // namespace tessera::optim
