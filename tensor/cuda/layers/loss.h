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

}  // namespace tessera::kernels::cuda
