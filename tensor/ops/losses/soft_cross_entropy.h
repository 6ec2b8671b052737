#pragma once

#include "tensor/arguments/loss.h"

namespace tessera::ops {

/// The loss, 0-dim or one for each row, and two values of each row for backward: the largest logit and
/// log(sum(exp(logits - largest))), (2, ...). Both are f32 for half types.
struct SoftCrossEntropy {
  /// `loss` and `log_sum_exp`.
  /// @{
  Tensor loss, log_sum_exp;
  /// @}
};

/// -sum(w target log_softmax(logits)) of each row, as PyTorch's cross_entropy with probabilities as targets:
/// logits and targets (..., classes) of one floating dtype; weight (classes), or undefined, of that dtype.
/// Smoothing makes a target (1 - s) t + s / classes; a mean is over the rows; `ignore_index` has no meaning
/// here. Throws ShapeError, also for no classes, DTypeError, ValueError.
SoftCrossEntropy soft_cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                                    const CrossEntropyOptions& options);

/// The gradient at the logits, given that at the loss.
Tensor soft_cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& targets,
                                   const Tensor& weight, const Tensor& log_sum_exp,
                                   const CrossEntropyOptions& options);

}  // namespace tessera::ops
