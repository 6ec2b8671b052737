#pragma once  // internal

#include "tensor/arguments/loss.h"

/// Cross entropy with a probability of each class as the target. Tensors are contiguous.
namespace tessera::kernels::cpu {

/// The loss, and what backward needs of each row: the largest logit and the log-sum (2, rows...).
void soft_cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                        const ops::CrossEntropyOptions& options, const Tensor& log_sum_exp,
                        const Tensor& loss);
void soft_cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& targets,
                                 const Tensor& weight, const Tensor& log_sum_exp,
                                 const ops::CrossEntropyOptions& options, const Tensor& dlogits);

}  // namespace tessera::kernels::cpu
