#pragma once

#include <string_view>

#include "autograd/functions/layers/loss.h"

/// Losses of classes and labels, with PyTorch's names and arguments. Those without weights are declared in
/// autograd/functions/layers/loss.h. Where a dimension counts the classes it is the last one, as in
/// `cross_entropy`; `class_dim = 1` is PyTorch's layout (N, C, d1, ...).
namespace tessera {

/// Cross entropy with a probability of each class as the target: -sum(w target log_softmax(logits)), logits
/// and target (..., classes), as PyTorch's for targets of floating dtype. Smoothing makes a target (1 - s) t
/// + s / classes; a mean is over the rows, whatever the weights; `ignore_index` has no meaning. One pass in
/// forward, and one in backward. The loss of half logits is f32. Saves logits and target. Throws ShapeError,
/// ValueError.
Variable cross_entropy(const Variable& logits, const Variable& target,
                       const CrossEntropyOptions& options = {}, const Tensor& weight = {});

/// -weight[t] x[t] of each row, for logarithms x of probabilities, (..., classes) with targets (...), or with
/// the classes along `class_dim`. Targets of `ignore_index` do not count; a mean divides by the sum of the
/// weights that count, and is NaN where none does. `weight` (classes), or undefined. Throws IndexError for a
/// target that is no class, ShapeError, DTypeError.
Variable nll_loss(const Variable& x, const Tensor& targets, const Tensor& weight, int64_t ignore_index = -100,
                  LossReduction reduction = LossReduction::mean, int64_t class_dim = -1);

/// `binary_cross_entropy` of probabilities, each loss times `weight`, which broadcasts to x's shape.
Variable binary_cross_entropy(const Variable& x, const Variable& target, const Variable& weight,
                              LossReduction reduction = LossReduction::mean);
/// `bce_with_logits` under PyTorch's name: each loss times `weight`, the positive part of a target times
/// `pos_weight`; both broadcast to x's shape, or are undefined. Without them it is one pass.
Variable binary_cross_entropy_with_logits(const Variable& x, const Variable& target,
                                          const Variable& weight = {},
                                          LossReduction reduction = LossReduction::mean,
                                          const Variable& pos_weight = {});

/// The reductions of `kl_div`: `batchmean` is the sum divided by the extent of dimension 0, the divergence of
/// one sample.
enum class KlReduction : uint8_t { mean, sum, none, batchmean };
/// The reduction of that name. Throws ValueError for another than "mean", "sum", "none" and "batchmean".
KlReduction kl_reduction(std::string_view name);
/// target (log(target) - x), as `kl_div` with a LossReduction.
Variable kl_div(const Variable& x, const Variable& target, KlReduction reduction, bool log_target = false);

/// log(1 + exp(-target x)), for targets 1 and -1. Throws ShapeError.
Variable soft_margin_loss(const Variable& x, const Variable& target,
                          LossReduction reduction = LossReduction::mean);

/// sum over the classes k other than the target t of max(0, margin - x[t] + x[k])^p, times weight[t], divided
/// by the number of classes: x (N, C) or (C), targets (N) or (), p 1 or 2. `weight` (C), or undefined. Throws
/// ShapeError; ValueError for another p or a NaN margin; IndexError.
Variable multi_margin_loss(const Variable& x, const Tensor& targets, int64_t p = 1, double margin = 1,
                           const Tensor& weight = {}, LossReduction reduction = LossReduction::mean);

/// sum over the labels t of a row and all classes k that are no label of it of max(0, 1 - x[t] + x[k]),
/// divided by the number of classes: x (N, C) or (C), `targets` of that shape, i64 or i32: a row's labels,
/// then -1, behind which nothing counts. Throws ShapeError; IndexError for a label that is no class.
Variable multilabel_margin_loss(const Variable& x, const Tensor& targets,
                                LossReduction reduction = LossReduction::mean);

/// The mean over the classes of -w (t log(sigmoid(x)) + (1 - t) log(sigmoid(-x))): x and target (..., C),
/// `weight` broadcasts to them, or is undefined. Throws ShapeError.
Variable multilabel_soft_margin_loss(const Variable& x, const Variable& target, const Variable& weight = {},
                                     LossReduction reduction = LossReduction::mean);

}  // namespace tessera
