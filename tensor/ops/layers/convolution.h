#pragma once

#include "tensor/arguments/convolution.h"
#include "tensor/tensor.h"

/// Convolutions as deep learning has them (cross-correlations), with PyTorch's names and order of arguments.
///
/// x is (N, C_in, ...) with as many spatial dimensions as the name says, or (C_in, ...) for one image. Where
/// an amount takes a Shape, one entry stands for all spatial dimensions. A channels-last x gives a
/// channels-last result. Half types are summed in f32 and rounded once. FLOPs are counted as for matrix
/// products. Throw ShapeError (ranks, channels, an empty result, a kernel larger than its padded input),
/// ValueError (a stride, dilation or number of groups below 1, a negative padding), DTypeError.
namespace tessera::ops {

/// y[n, o, p] = bias[o] + sum over c, k of weight[o, c, k] x[n, group's c, stride p + dilation k - padding]:
/// weight (C_out, C_in / groups, ...), bias (C_out) or undefined. An extent of y is
/// (in + 2 padding - dilation (kernel - 1) - 1) / stride + 1.
/// @{
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Shape& stride = 1,
              const ConvPadding& padding = {}, const Shape& dilation = 1, int64_t groups = 1);
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Shape& stride = 1,
              const ConvPadding& padding = {}, const Shape& dilation = 1, int64_t groups = 1);
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Shape& stride = 1,
              const ConvPadding& padding = {}, const Shape& dilation = 1, int64_t groups = 1);
/// @}

/// The transpose of a convolution as a linear map, its gradient by x: weight (C_in, C_out / groups, ...). An
/// extent of y is (in - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1; `output_padding`,
/// smaller than the stride or the dilation, chooses among the extents that the convolution maps to x's.
/// @{
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const Shape& stride = 1, const Shape& padding = 0, const Shape& output_padding = 0,
                        int64_t groups = 1, const Shape& dilation = 1);
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const Shape& stride = 1, const Shape& padding = 0, const Shape& output_padding = 0,
                        int64_t groups = 1, const Shape& dilation = 1);
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const Shape& stride = 1, const Shape& padding = 0, const Shape& output_padding = 0,
                        int64_t groups = 1, const Shape& dilation = 1);
/// @}

/// The windows of x (N, C, H, W) as columns: (N, C taps, L), for L positions of a window (im2col). One image
/// (C, H, W) gives (C taps, L).
Tensor unfold(const Tensor& x, const Shape& kernel_size, const Shape& dilation = 1, const Shape& padding = 0,
              const Shape& stride = 1);
/// The sum of windows where they came from, (N, C, output_size), or (C, output_size) of columns (C taps, L):
/// the transpose of `unfold` (col2im).
Tensor fold(const Tensor& x, const Shape& output_size, const Shape& kernel_size, const Shape& dilation = 1,
            const Shape& padding = 0, const Shape& stride = 1);

/// The geometry of the function `name`, for batched x of `ndim` spatial dimensions. Throw as the functions.
/// @{
ConvolutionGeometry convolution_geometry(const char* name, int ndim, const Tensor& x, const Tensor& weight,
                                         const Tensor& bias, const Shape& stride, const ConvPadding& padding,
                                         const Shape& dilation, int64_t groups);
ConvolutionGeometry transposed_geometry(const char* name, int ndim, const Tensor& x, const Tensor& weight,
                                        const Tensor& bias, const Shape& stride, const Shape& padding,
                                        const Shape& output_padding, int64_t groups, const Shape& dilation);
ConvolutionGeometry unfold_geometry(const Tensor& x, const Shape& kernel_size, const Shape& dilation,
                                    const Shape& padding, const Shape& stride);
ConvolutionGeometry fold_geometry(const Tensor& columns, const Shape& output_size, const Shape& kernel_size,
                                  const Shape& dilation, const Shape& padding, const Shape& stride);
/// @}

/// The convolution of a geometry: x (N, C_in, ...), weight and bias to y. `added`, of y's shape and x's
/// dtype, is added to it, and with `relu` values below 0 then become 0, while y is written: in the same pass,
/// with one rounding. Throws ShapeError, DTypeError and DeviceError for operands that do not fit.
Tensor convolution(const ConvolutionGeometry& geometry, const Tensor& x, const Tensor& weight,
                   const Tensor& bias = {}, const Tensor& added = {}, bool relu = false);
/// The columns of x's windows.
Tensor unfold_windows(const ConvolutionGeometry& geometry, const Tensor& x);
/// The transposes: from the gradient of y, or of columns, that of x. `bias` (C_in or undefined) is added.
/// @{
Tensor convolution_input_backward(const ConvolutionGeometry& geometry, const Tensor& dy, const Tensor& weight,
                                  const Tensor& bias = {});
Tensor fold_windows(const ConvolutionGeometry& geometry, const Tensor& columns);
/// @}
/// The weight's gradient, written or added to `dw`: contiguous, in dy's dtype or, of half types, in f32.
void convolution_weight_backward(const ConvolutionGeometry& geometry, const Tensor& dy, const Tensor& x,
                                 const Tensor& dw, bool accumulate = false);

}  // namespace tessera::ops
