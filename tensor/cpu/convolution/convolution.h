#pragma once  // internal

#include "tensor/arguments/convolution.h"
#include "tensor/tensor.h"

/// Convolutions of floating dtypes. Half types are computed in f32, with one rounding. The weight and dw are
/// contiguous, y, dy and dx contiguous or channels_last, x has any strides. No extent of y, x or the weight
/// is 0. The path is a function of the geometry, the dtype, the processor and `set_matmul_backend`.
namespace tessera::kernels::cpu {

/// y = weight * x, plus `bias` (C_out) and `added` (like y) where they are defined; then, with `relu`, at
/// least 0.
void convolution(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& added, bool relu, const Tensor& y);

/// dx, from the gradient of y.
void convolution_input_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight,
                                const Tensor& dx);

/// The weight's gradient, in dy's dtype or f32; with `accumulate` it is added to `dw`.
void convolution_weight_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& x,
                                 bool accumulate, const Tensor& dw);

}  // namespace tessera::kernels::cpu
