#pragma once

#include "tensor/ops/loss.h"

namespace tessera::ops {

/// The gradients that `linear_cross_entropy` computes beside the loss.
struct LinearCrossEntropyWants {
  /// The gradient of the operand of this name.
  /// @{
  bool x = false, weight = false, bias = false;
  /// @}
  /// Whether any gradient is requested.
  bool any() const { return x || weight || bias; }
};

/// The loss (0-dim; f32 for half types) and its gradients, undefined unless requested. Those of weight and
/// bias are sums over rows, and f32 for half types.
struct LinearCrossEntropy {
  /// `loss`: the mean, or the sum, over rows. The gradients have the shapes of the operands of their names;
  /// that of x has x's dtype too.
  /// @{
  Tensor loss, x, weight, bias;
  /// @}
};

/// cross_entropy(linear(x, weight, bias), targets), without storing all logits: rows are computed in chunks.
/// The logits of a chunk (f32 also for half types) are replaced by their gradient, which is then added to the
/// gradients of x, weight and bias. x (..., C), weight (V, C), bias (V) or undefined, targets (...),
/// class_weight (V) or undefined. Chunks depend on the shapes alone; the same number of threads gives the
/// same bits, as in `matmul`. Throws as `linear` and `cross_entropy`, and ValueError for a reduction to none.
LinearCrossEntropy linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        const Tensor& targets, const Tensor& class_weight,
                                        const CrossEntropyOptions& options,
                                        LinearCrossEntropyWants wants = {});

}  // namespace tessera::ops
