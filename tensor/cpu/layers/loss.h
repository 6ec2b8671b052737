#pragma once  // internal

#include "tensor/arguments/loss.h"

namespace tessera::kernels::cpu {

/// All tensors are contiguous. Throws IndexError for a target that is neither a class nor the ignored id.
void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                   const ops::CrossEntropyOptions& options, const ops::CrossEntropy& out);
void cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& targets,
                            const Tensor& weight, const ops::CrossEntropy& forward,
                            const ops::CrossEntropyOptions& options, const Tensor& dlogits);

/// Sets `divisor` (f64), by which the sum of the losses is divided: for a mean the number of targets that
/// count, or the sum of their weights; else 1. Throws IndexError for a target that is neither a class nor the
/// ignored id.
void cross_entropy_divisor(const Tensor& targets, int64_t classes, const Tensor& weight,
                           const ops::CrossEntropyOptions& options, const Tensor& divisor);

/// Adds the losses of some rows of a larger matrix, in order, to `sum` (f64, 0-dim). With `with_gradient` the
/// logits (f32 or f64) are replaced by the gradient of that sum over `divisor`, each row while it is in the
/// cache.
void cross_entropy_in_place(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                            const ops::CrossEntropyOptions& options, const Tensor& divisor,
                            bool with_gradient, const Tensor& sum);

}  // namespace tessera::kernels::cpu
