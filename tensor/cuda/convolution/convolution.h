#pragma once  // internal

#include "tensor/arguments/convolution.h"
#include "tensor/tensor.h"

/// Convolutions on CUDA devices by cuDNN, with the contract of tensor/cpu/convolution/convolution.h: sums in
/// f32 for the half types and for f32, in f64 for f64.
namespace tessera::kernels::cuda {

void convolution(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& added, bool relu, const Tensor& y);
void convolution_input_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight,
                                const Tensor& dx);
void convolution_weight_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& x,
                                 bool accumulate, const Tensor& dw);

}  // namespace tessera::kernels::cuda
