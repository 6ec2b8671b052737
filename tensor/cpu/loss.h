#pragma once

#include "tensor/ops/loss.h"

namespace tessera::kernels::cpu {

/// All contiguous. Throws IndexError for a target that is neither a class nor the ignored id.
void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                   const ops::CrossEntropyOptions& options, const ops::CrossEntropy& out);
void cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& targets,
                            const Tensor& weight, const ops::CrossEntropy& forward,
                            const ops::CrossEntropyOptions& options, const Tensor& dlogits);

}  // namespace tessera::kernels::cpu
