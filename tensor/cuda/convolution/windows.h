#pragma once  // internal

#include "tensor/arguments/convolution.h"
#include "tensor/tensor.h"

/// Windows of images on CUDA devices, with the contract of tensor/cpu/convolution/windows.h.
namespace tessera::kernels::cuda {

void unfold(const ConvolutionGeometry& g, const Tensor& x, const Tensor& columns);
void fold(const ConvolutionGeometry& g, const Tensor& columns, const Tensor& x);

}  // namespace tessera::kernels::cuda
