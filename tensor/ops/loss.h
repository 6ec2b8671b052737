#pragma once

#include "tensor/profile/operand_bytes.h"
#include "tensor/tensor.h"

namespace tessera::ops {

/// How the losses of the elements are reduced: to their mean, to their sum, or not at all.
enum class LossReduction : uint8_t { mean, sum, none };

/// What counts in a cross entropy, and how.
struct CrossEntropyOptions {
  int64_t ignore_index = -100;   ///< targets of this id do not count
  double label_smoothing = 0.0;  ///< share of the target distribution, in [0, 1], spread over all classes
  LossReduction reduction = LossReduction::mean;  ///< a mean is over the targets that count
};

/// The loss, and the values that its backward needs. `log_sum_exp` (2, ...) holds for each row the largest
/// logit and log(sum(exp(logits - largest))), since for large logits their sum would lose the second; it is
/// f32 for half types, as the loss. `divisor` (f64, 0-dim) is what a mean is divided by: the number of
/// targets that count, or the sum of their weights.
struct CrossEntropy {
  /// `loss`: 0-dim, or the targets' shape without a reduction. `log_sum_exp`: 2, then the targets' shape.
  /// @{
  Tensor loss, log_sum_exp, divisor;
  /// @}
};
/// The bytes of its three tensors.
inline int64_t operand_bytes(const CrossEntropy& c) {
  return bytes_of_operands(c.loss, c.log_sum_exp, c.divisor);
}

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

}  // namespace tessera::ops
