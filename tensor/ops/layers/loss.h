#pragma once

#include "tensor/arguments/loss.h"
#include "tensor/arguments/quantized_weight.h"

namespace tessera::ops {

/// -log softmax(logits)[target], as PyTorch's cross_entropy with class ids. logits (..., classes) floating;
/// targets (...) i64 or i32; weight (classes) of the logits' dtype, or undefined. With smoothing s, weights w
/// and K classes a row's loss is (1 - s) w[t] (lse - x[t]) + s/K sum_k w[k] (lse - x[k]). A mean over no
/// target is NaN. Throws IndexError naming the id, its position and the number of classes; ShapeError, also
/// for no classes; DTypeError, ValueError.
CrossEntropy cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight = {},
                           const CrossEntropyOptions& options = {});

/// The gradient at the logits, given the gradient at the loss.
Tensor cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& targets,
                              const Tensor& weight, const CrossEntropy& forward,
                              const CrossEntropyOptions& options);

/// Throws unless `targets` and class weights fit logits of this shape and dtype, and the options are in
/// range.
void check_cross_entropy(const Shape& logits, DType dtype, const Tensor& targets, const Tensor& weight,
                         const CrossEntropyOptions& options);

/// The gradients that `linear_cross_entropy` computes beside the loss.
struct LinearCrossEntropyNeedsGrad {
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
                                        LinearCrossEntropyNeedsGrad needs_grad = {});

/// The loss alone, f32, for a weight of 8-bit integers (tensor/ops/layers/quantized_linear.h): x f32 or bf16,
/// bias of x's dtype or undefined. The logits of a chunk are f32 and not rounded. Throws as
/// `quantized_linear` and `linear_cross_entropy`.
Tensor quantized_linear_cross_entropy(const Tensor& x, const QuantizedWeight& weight, const Tensor& bias,
                                      const Tensor& targets, const CrossEntropyOptions& options);

}  // namespace tessera::ops
