#pragma once

#include "autograd/functions/losses/regression.h"
#include "nn/layer.h"

/// Losses of real-valued predictions as modules, with PyTorch's names: each is the function of the same name
/// (autograd/functions/losses/regression.h), whose arguments are its options. x and the target have one
/// shape; the loss is 0-dim, or has that shape without a reduction.
namespace tessera::nn {

/// Options of a loss without parameters.
struct LossOptions {
  LossReduction reduction =
      LossReduction::mean;  ///< of the elements' losses; `loss_reduction("sum")` by name
};

/// |x - target|.
struct L1Loss : Layer<L1Loss, LossOptions> {
  /// By default the mean.
  explicit L1Loss(Options options = {}) : Layer(options) {}
  /// `l1_loss(x, target, o.reduction)`; with a weight of x's shape, each element's loss times its own.
  /// @{
  Variable forward(const Variable& x, const Variable& target) const {
    return l1_loss(x, target, o.reduction);
  }
  Variable forward(const Variable& x, const Variable& target, const Variable& weight) const {
    return l1_loss(x, target, o.reduction, weight);
  }
  /// @}
};

/// (x - target)^2.
struct MSELoss : Layer<MSELoss, LossOptions> {
  /// By default the mean.
  explicit MSELoss(Options options = {}) : Layer(options) {}
  /// `mse_loss(x, target, o.reduction)`; with a weight of x's shape, each element's loss times its own.
  /// @{
  Variable forward(const Variable& x, const Variable& target) const {
    return mse_loss(x, target, o.reduction);
  }
  Variable forward(const Variable& x, const Variable& target, const Variable& weight) const {
    return mse_loss(x, target, o.reduction, weight);
  }
  /// @}
};

/// Options of HuberLoss.
struct HuberLossOptions {
  LossReduction reduction = LossReduction::mean;  ///< of the elements' losses
  double delta = 1;                               ///< the distance from which the loss is linear
};
/// Quadratic up to delta, then linear (Huber 1964).
struct HuberLoss : Layer<HuberLoss, HuberLossOptions> {
  /// By default the mean, with delta 1.
  explicit HuberLoss(Options options = {}) : Layer(options) {}
  /// `huber_loss(x, target, o.reduction, o.delta)`.
  Variable forward(const Variable& x, const Variable& target) const {
    return huber_loss(x, target, o.reduction, o.delta);
  }
};

/// Options of SmoothL1Loss.
struct SmoothL1LossOptions {
  LossReduction reduction = LossReduction::mean;  ///< of the elements' losses
  double beta = 1;                                ///< the distance from which the loss is linear
};
/// Huber's loss divided by beta (Girshick 2015).
struct SmoothL1Loss : Layer<SmoothL1Loss, SmoothL1LossOptions> {
  /// By default the mean, with beta 1.
  explicit SmoothL1Loss(Options options = {}) : Layer(options) {}
  /// `smooth_l1_loss(x, target, o.reduction, o.beta)`.
  Variable forward(const Variable& x, const Variable& target) const {
    return smooth_l1_loss(x, target, o.reduction, o.beta);
  }
};

/// Options of PoissonNLLLoss.
struct PoissonNLLLossOptions {
  bool log_input = true;                          ///< whether x is the logarithm of the rate
  bool full = false;                              ///< whether log(target!) is added, approximately
  double eps = 1e-8;                              ///< added to x before its logarithm
  LossReduction reduction = LossReduction::mean;  ///< of the elements' losses
};
/// The negative log-likelihood of counts under a Poisson distribution.
struct PoissonNLLLoss : Layer<PoissonNLLLoss, PoissonNLLLossOptions> {
  /// By default of logarithms of rates.
  explicit PoissonNLLLoss(Options options = {}) : Layer(options) {}
  /// `poisson_nll_loss(x, target, o.log_input, o.full, o.eps, o.reduction)`.
  Variable forward(const Variable& x, const Variable& target) const {
    return poisson_nll_loss(x, target, o.log_input, o.full, o.eps, o.reduction);
  }
};

/// Options of GaussianNLLLoss.
struct GaussianNLLLossOptions {
  bool full = false;                              ///< whether log(2 pi) / 2 is added
  double eps = 1e-6;                              ///< the least variance
  LossReduction reduction = LossReduction::mean;  ///< of the elements' losses
};
/// The negative log-likelihood under normal distributions of given variances.
struct GaussianNLLLoss : Layer<GaussianNLLLoss, GaussianNLLLossOptions> {
  /// By default without the constant.
  explicit GaussianNLLLoss(Options options = {}) : Layer(options) {}
  /// `gaussian_nll_loss(x, target, variance, o.full, o.eps, o.reduction)`.
  Variable forward(const Variable& x, const Variable& target, const Variable& variance) const {
    return gaussian_nll_loss(x, target, variance, o.full, o.eps, o.reduction);
  }
};

}  // namespace tessera::nn
