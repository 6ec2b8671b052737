#pragma once  // internal

#include "tensor/arguments/loss.h"

/// Cross entropy on CUDA devices, with the contract of tensor/cpu/layers/loss.h, but that a target that is no
/// class is an error when the host next waits for the device; until then its row does not count.
namespace tessera::kernels::cuda {

void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                   const ops::CrossEntropyOptions& options, const ops::CrossEntropy& out);
void cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& targets,
                            const Tensor& weight, const ops::CrossEntropy& forward,
                            const ops::CrossEntropyOptions& options, const Tensor& dlogits);
void cross_entropy_divisor(const Tensor& targets, int64_t classes, const Tensor& weight,
                           const ops::CrossEntropyOptions& options, const Tensor& divisor);
void cross_entropy_in_place(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                            const ops::CrossEntropyOptions& options, const Tensor& divisor,
                            bool with_gradient, const Tensor& sum);

}  // namespace tessera::kernels::cuda
