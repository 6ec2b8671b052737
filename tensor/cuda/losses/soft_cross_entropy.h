#pragma once  // internal

#include "tensor/arguments/loss.h"

/// Cross entropy with a probability of each class as the target, on CUDA devices: the contract of
/// tensor/cpu/losses/soft_cross_entropy.h.
namespace tessera::kernels::cuda {

void soft_cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                        const ops::CrossEntropyOptions& options, const Tensor& log_sum_exp,
                        const Tensor& loss);
void soft_cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& targets,
                                 const Tensor& weight, const Tensor& log_sum_exp,
                                 const ops::CrossEntropyOptions& options, const Tensor& dlogits);

}  // namespace tessera::kernels::cuda
