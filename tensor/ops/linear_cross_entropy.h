#pragma once

#include "tensor/ops/loss.h"

namespace tessera::ops {

/// Which gradients `linear_cross_entropy` computes beside the loss.
struct LinearCrossEntropyWants {
  bool x = false, weight = false, bias = false;
  bool any() const { return x || weight || bias; }
};

/// The loss (0-dim; f32 for half types) and its gradients, undefined where not wanted. Those of weight and
/// bias are sums over rows, and f32 for half types.
struct LinearCrossEntropy {
  Tensor loss, x, weight, bias;
};

/// cross_entropy(linear(x, weight, bias), targets), without ever holding the logits: rows go through in
/// chunks, and a chunk of logits (f32 also for half types) becomes its gradient where it lies, which then
/// adds to those of x, weight and bias. x (..., C), weight (V, C), bias (V) or undefined, targets (...),
/// class_weight (V) or undefined. Chunks depend on the shapes alone; the same bits at one number of threads,
/// as `matmul`. Throws as `linear` and `cross_entropy`, and ValueError for a reduction to none.
LinearCrossEntropy linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        const Tensor& targets, const Tensor& class_weight,
                                        const CrossEntropyOptions& options,
                                        LinearCrossEntropyWants wants = {});

}  // namespace tessera::ops
