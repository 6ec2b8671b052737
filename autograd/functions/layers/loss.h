#pragma once

#include "autograd/variable.h"
#include "tensor/ops/layers/loss.h"

namespace tessera {

using ops::CrossEntropyOptions;
using ops::LossReduction;

/// -log softmax(logits)[target]: logits (..., classes), targets (...) i64 or i32, `weight` (classes) a
/// constant weight of each class or undefined. Reductions, ignore_index and label smoothing as PyTorch's.
/// The loss of half logits is f32. Saves the logits and one value per row. Throws IndexError for a target
/// outside [0, classes), naming it and its position.
Variable cross_entropy(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options = {},
                       const Tensor& weight = {});

/// cross_entropy(linear(x, weight, bias), targets, options, class_weight) in chunks of rows, so that the
/// logits never exist at once (tensor/ops/layers/loss.h): head and loss of a language model. The forward
/// computes the gradients too, chunk by chunk. Saves them, as large as x, weight and bias, and for
/// create_graph, which uses the composed form, x and targets. Without a reduction, the composed form is used
/// at once.
Variable linear_cross_entropy(const Variable& x, const Variable& weight, const Tensor& targets,
                              const CrossEntropyOptions& options = {}, const Variable& bias = {},
                              const Tensor& class_weight = {});

/// (x - target)^2, reduced. Shapes must be equal: a broadcast loss is a mistake.
Variable mse_loss(const Variable& x, const Variable& target, LossReduction reduction = LossReduction::mean);

/// Binary cross entropy of sigmoid(x) and `target` (probabilities), without overflow: max(x, 0) - x t +
/// log(1 + exp(-|x|)). Positive targets count `positive_weight` times (undefined: once).
Variable bce_with_logits(const Variable& x, const Variable& target,
                         LossReduction reduction = LossReduction::mean, const Variable& positive_weight = {});

/// Losses made of other functions; with `reduction` mean or sum a 0-dim Variable.
/// @{

/// |x - target|.
Variable l1_loss(const Variable& x, const Variable& target, LossReduction reduction = LossReduction::mean);
/// (x - target)^2 / (2 beta) where the difference is below `beta`, else |x - target| - beta / 2 (Girshick
/// 2015). Throws ValueError for a beta that is not above 0.
Variable smooth_l1_loss(const Variable& x, const Variable& target,
                        LossReduction reduction = LossReduction::mean, double beta = 1);
/// -target log(x) - (1 - target) log(1 - x) for probabilities x; logarithms below -100 count as -100, as in
/// PyTorch.
Variable binary_cross_entropy(const Variable& x, const Variable& target,
                              LossReduction reduction = LossReduction::mean);
/// target (log(target) - x) for logarithms of probabilities x; 0 where the target is 0. With `log_target`,
/// the target is a logarithm, too. The mean is that over all elements.
Variable kl_div(const Variable& x, const Variable& target, LossReduction reduction = LossReduction::mean,
                bool log_target = false);
/// -x[i][targets[i]] for logarithms of probabilities x (n, classes) and targets (n,). Throws as `gather`.
Variable nll_loss(const Variable& x, const Tensor& targets, LossReduction reduction = LossReduction::mean);
/// @}

}  // namespace tessera
