#pragma once

#include "tensor/ops/normalization.h"

namespace tessera::kernels::cpu {

/// All contiguous; a row is what one element of rstd stands for. An undefined mean asks for RMS norm.
void normalization(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                   const ops::Normalized& out);
/// Fills the gradients that are defined.
void normalization_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                            const Tensor& rstd, const ops::NormalizationGradients& out);

}  // namespace tessera::kernels::cpu
