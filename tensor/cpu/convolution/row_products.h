#pragma once  // internal

#include "tensor/arguments/convolution.h"
#include "tensor/tensor.h"

/// Convolutions of channels-last tensors, of one group, as products over rows of columns: the window of a
/// position is a row (taps, C), copied in runs of C contiguous values. For f32 and bf16, computed in f32; any
/// kernel, stride, dilation and padding. Weights and their gradients are f32 and contiguous. Tasks depend on
/// the geometry alone, so results do not depend on the number of threads.
namespace tessera::kernels::cpu {

/// y = weight * x, plus `bias` (C_out, f32) and `added` (like y) where they are defined; then, with `relu`,
/// at least 0.
void convolve_rows(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Tensor& added, bool relu, const Tensor& y);

/// dx, from the gradient of y.
void convolve_rows_input(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight,
                         const Tensor& dx);

/// The weight's gradient, from an f32 dy; with `accumulate` it is added to `dw`.
void convolve_rows_weight(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& x, bool accumulate,
                          const Tensor& dw);

}  // namespace tessera::kernels::cpu
