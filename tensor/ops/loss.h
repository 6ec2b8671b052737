#pragma once

#include "tensor/arguments/loss.h"

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

}  // namespace tessera::ops
