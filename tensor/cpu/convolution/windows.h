#pragma once  // internal

#include "tensor/arguments/convolution.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// The windows of x (N, C, H, W) as `columns` (N, C taps, L), contiguous. x has any strides.
void unfold(const ConvolutionGeometry& g, const Tensor& x, const Tensor& columns);

/// x (N, C, H, W), contiguous, as the sum of its windows `columns` (N, C taps, L), contiguous.
void fold(const ConvolutionGeometry& g, const Tensor& columns, const Tensor& x);

}  // namespace tessera::kernels::cpu
