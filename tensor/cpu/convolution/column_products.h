#pragma once  // internal

#include "tensor/arguments/convolution.h"
#include "tensor/tensor.h"

/// Convolutions as matrix products over blocks of columns (columns.h), for f32 and f64: the path that needs
/// no library. x and weight's gradients alike; the weight is contiguous. y, dy and dx are contiguous or
/// channels_last; x has any strides. The blocks depend on the geometry alone, so results do not depend on the
/// number of threads.
namespace tessera::kernels::cpu {

/// y = weight * x, plus `bias` (C_out) and `added` (like y) where they are defined; then, with `relu`, at
/// least 0.
void convolve_columns(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Tensor& added, bool relu, const Tensor& y);

/// dx, from the gradient of y.
void convolve_columns_input(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight,
                            const Tensor& dx);

/// The weight's gradient; with `accumulate` it is added to `dw`.
void convolve_columns_weight(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& x, bool accumulate,
                             const Tensor& dw);

}  // namespace tessera::kernels::cpu
