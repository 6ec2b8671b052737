#pragma once

#include <string_view>

#include "autograd/functions/layers/loss.h"

/// Losses of real-valued predictions, with PyTorch's names and arguments. `l1_loss`, `mse_loss` and
/// `smooth_l1_loss` without weights are declared in autograd/functions/layers/loss.h. Each of them, and
/// `huber_loss`, is one pass over x and the target in forward, and one in backward; they save both.
namespace tessera {

/// The reduction of that name, as PyTorch spells it: "mean", "sum" or "none". Throws ValueError for another.
LossReduction loss_reduction(std::string_view name);

/// (x - target)^2 / 2 up to a distance of `delta`, from there delta (|x - target| - delta / 2) (Huber 1964).
/// Throws ShapeError unless x and target have one shape, ValueError for a delta that is not above 0.
Variable huber_loss(const Variable& x, const Variable& target, LossReduction reduction = LossReduction::mean,
                    double delta = 1);

/// Each element's loss times its weight. A mean divides by the sum of the weights (that of `huber_loss` by
/// the number of elements, as PyTorch has it). Throws ShapeError unless the weight has x's shape.
/// @{
Variable l1_loss(const Variable& x, const Variable& target, LossReduction reduction, const Variable& weight);
Variable mse_loss(const Variable& x, const Variable& target, LossReduction reduction, const Variable& weight);
Variable huber_loss(const Variable& x, const Variable& target, LossReduction reduction, double delta,
                    const Variable& weight);
/// @}

/// e^x - target x for logarithms x of a rate, or x - target log(x + epsilon) without `log_input`. With
/// `full`, Stirling's approximation of log(target!) is added where the target is above 1. Throws ShapeError,
/// and ValueError for an epsilon that is not above 0.
Variable poisson_nll_loss(const Variable& x, const Variable& target, bool log_input = true, bool full = false,
                          double epsilon = 1e-8, LossReduction reduction = LossReduction::mean);

/// (log v + (x - target)^2 / v) / 2 with the variance v = max(variance, epsilon), of which the bound is no
/// part of the gradient, as in PyTorch; with `full`, log(2 pi) / 2 is added (Nix and Weigend 1994).
/// `variance` has x's shape, or that without or with an extent of 1 in the last dimension, or broadcasts
/// along one dimension. Throws ShapeError; ValueError for a negative variance and an epsilon that is not
/// above 0.
Variable gaussian_nll_loss(const Variable& x, const Variable& target, const Variable& variance,
                           bool full = false, double epsilon = 1e-6,
                           LossReduction reduction = LossReduction::mean);
/// The same with one variance for all elements.
Variable gaussian_nll_loss(const Variable& x, const Variable& target, double variance, bool full = false,
                           double epsilon = 1e-6, LossReduction reduction = LossReduction::mean);

}  // namespace tessera
