#pragma once

#include <array>

#include "optim/fused_optimizer.h"
#include "tensor/elementwise/update_rules/adam.h"

namespace tessera::optim {

/// Options of Adam, with PyTorch's defaults.
struct AdamOptions {
  double lr = 1e-3;  ///< the first learning rate
  std::array<double, 2> betas = {0.9,
                                 0.999};  ///< decay of the running means of the gradient and of its square
  double eps = 1e-8;                      ///< added to the root of the second, after its bias correction
  double weight_decay = 0.0;              ///< times the parameter, added to the gradient
  bool amsgrad = false;                   ///< divide by the largest second mean so far
};

/// Options of AdamW, with PyTorch's defaults.
struct AdamWOptions {
  double lr = 1e-3;                            ///< the first learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< as in AdamOptions
  double eps = 1e-8;                           ///< as in AdamOptions
  double weight_decay = 1e-2;  ///< times lr, the fraction of the parameter subtracted in each step
  bool amsgrad = false;        ///< as in AdamOptions
};

/// What Adam and AdamW share: the state exp_avg, exp_avg_sq and, for amsgrad, max_exp_avg_sq.
class AdamBase : public FusedOptimizer<elementwise::AdamRule> {
 protected:
  /// `decoupled`: AdamW's decay.
  template <class Options>
  AdamBase(std::string name, bool decoupled, const std::vector<ParameterGroup<Options>>& groups)
      : FusedOptimizer(std::move(name), {{{.name = "beta1", .value = &Rule::beta1},
                                          {.name = "beta2", .value = &Rule::beta2},
                                          {.name = "eps", .value = &Rule::eps},
                                          {.name = "weight_decay", .value = &Rule::weight_decay},
                                          {.name = "amsgrad", .flag = &Rule::amsgrad}},
                                         &check}) {
    for (const auto& [parameters, options] : groups)
      add_group(parameters, options.lr,
                {.beta1 = options.betas[0],
                 .beta2 = options.betas[1],
                 .eps = options.eps,
                 .weight_decay = options.weight_decay,
                 .decoupled = decoupled,
                 .amsgrad = options.amsgrad});
    require_parameters();
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
class Adam : public AdamBase {
 public:
  using Options = AdamOptions;  ///< those of a group
  /// One group with all parameters, or several groups.
  /// @{
  explicit Adam(const ParameterList& parameters, const Options& options = {})
      : Adam({{parameters, options}}) {}
  explicit Adam(const std::vector<ParameterGroup<Options>>& groups)
      : AdamBase("Adam", /*decoupled=*/false, groups) {}
  /// @}
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019). Throws as Adam.
class AdamW : public AdamBase {
 public:
  using Options = AdamWOptions;  ///< those of a group
  /// One group with all parameters, or several groups.
  /// @{
  explicit AdamW(const ParameterList& parameters, const Options& options = {})
      : AdamW({{parameters, options}}) {}
  explicit AdamW(const std::vector<ParameterGroup<Options>>& groups)
      : AdamBase("AdamW", /*decoupled=*/true, groups) {}
  /// @}
};

}  // namespace tessera::optim
