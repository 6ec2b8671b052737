#pragma once  // internal

#include "tensor/arguments/normalization_call.h"

/// Layer norm and RMS norm on CUDA devices, with the contract of tensor/cpu/layers/normalization.h. A dropout
/// mask is not taken yet: NotBuiltError.
namespace tessera::kernels::cuda {

void normalization(const ops::NormalizationCall& call, const ops::Normalized& out);
void recompute_normalized(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                          const Tensor& rstd, const Tensor& y);
void normalization_backward(const ops::NormalizationBackwardCall& call,
                            const ops::NormalizationGradients& out);

}  // namespace tessera::kernels::cuda
