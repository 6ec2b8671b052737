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

extern template class FusedOptimizer<elementwise::AdamRule, AdamOptions>;
extern template class FusedOptimizer<elementwise::AdamRule, AdamWOptions>;

/// Adam: A Method for Stochastic Optimization (Kingma and Ba 2015). State: exp_avg, exp_avg_sq and, for
/// amsgrad, max_exp_avg_sq. Throws ConfigError for options out of range, and as `Optimizer` does.
class Adam : public FusedOptimizer<elementwise::AdamRule, AdamOptions> {
 public:
  /// One group with all parameters, also by their learning rate alone, or several groups.
  /// @{
  explicit Adam(const ParameterList& parameters, const Options& options = {});
  Adam(const ParameterList& parameters, Number auto lr)
      : Adam(parameters, Options{.lr = static_cast<double>(lr)}) {}
  explicit Adam(const std::vector<ParameterGroup<Options>>& groups);
  /// @}
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019). State and errors as Adam's.
class AdamW : public FusedOptimizer<elementwise::AdamRule, AdamWOptions> {
 public:
  /// One group with all parameters, also by their learning rate alone, or several groups.
  /// @{
  explicit AdamW(const ParameterList& parameters, const Options& options = {});
  AdamW(const ParameterList& parameters, Number auto lr)
      : AdamW(parameters, Options{.lr = static_cast<double>(lr)}) {}
  explicit AdamW(const std::vector<ParameterGroup<Options>>& groups);
  /// @}
};

}  // namespace tessera::optim
