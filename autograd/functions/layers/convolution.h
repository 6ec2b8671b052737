#pragma once

#include "autograd/variable.h"
#include "tensor/arguments/convolution.h"

/// The convolutions of tensor/ops/layers/convolution.h. A convolution is linear in x and in the weight, and
/// its derivatives are convolutions again, so that it can be differentiated any number of times. x is saved
/// where the weight's gradient is wanted, the weight where x's is. The weight's gradient is added in place
/// where its leaf has a buffer.
namespace tessera {

/// y = weight * x + bias: x (N, C_in, ...) or (C_in, ...), weight (C_out, C_in / groups, ...), bias (C_out)
/// or undefined.
/// @{
Variable conv1d(const Variable& x, const Variable& weight, const Variable& bias = {}, const Shape& stride = 1,
                const ConvPadding& padding = {}, const Shape& dilation = 1, int64_t groups = 1);
Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias = {}, const Shape& stride = 1,
                const ConvPadding& padding = {}, const Shape& dilation = 1, int64_t groups = 1);
Variable conv3d(const Variable& x, const Variable& weight, const Variable& bias = {}, const Shape& stride = 1,
                const ConvPadding& padding = {}, const Shape& dilation = 1, int64_t groups = 1);
/// @}

/// max(conv(...), 0) in the pass that writes the convolution, for networks without a norm in between. Saves
/// x, weight and the result, of which backward reads the sign.
/// @{
Variable conv1d_relu(const Variable& x, const Variable& weight, const Variable& bias = {},
                     const Shape& stride = 1, const ConvPadding& padding = {}, const Shape& dilation = 1,
                     int64_t groups = 1);
Variable conv2d_relu(const Variable& x, const Variable& weight, const Variable& bias = {},
                     const Shape& stride = 1, const ConvPadding& padding = {}, const Shape& dilation = 1,
                     int64_t groups = 1);
Variable conv3d_relu(const Variable& x, const Variable& weight, const Variable& bias = {},
                     const Shape& stride = 1, const ConvPadding& padding = {}, const Shape& dilation = 1,
                     int64_t groups = 1);
/// @}
/// max(conv(...) + added, 0) in the same pass: the end of a residual block, `added` being of the result's
/// shape and dtype. Its gradient is that of the result where this is above 0. Throw ShapeError for another
/// shape.
/// @{
Variable conv1d_add_relu(const Variable& x, const Variable& added, const Variable& weight,
                         const Variable& bias = {}, const Shape& stride = 1, const ConvPadding& padding = {},
                         const Shape& dilation = 1, int64_t groups = 1);
Variable conv2d_add_relu(const Variable& x, const Variable& added, const Variable& weight,
                         const Variable& bias = {}, const Shape& stride = 1, const ConvPadding& padding = {},
                         const Shape& dilation = 1, int64_t groups = 1);
Variable conv3d_add_relu(const Variable& x, const Variable& added, const Variable& weight,
                         const Variable& bias = {}, const Shape& stride = 1, const ConvPadding& padding = {},
                         const Shape& dilation = 1, int64_t groups = 1);
/// @}

/// The transposes: x (N, C_in, ...) or (C_in, ...), weight (C_in, C_out / groups, ...), bias (C_out) or
/// undefined.
/// @{
Variable conv_transpose1d(const Variable& x, const Variable& weight, const Variable& bias = {},
                          const Shape& stride = 1, const Shape& padding = 0, const Shape& output_padding = 0,
                          int64_t groups = 1, const Shape& dilation = 1);
Variable conv_transpose2d(const Variable& x, const Variable& weight, const Variable& bias = {},
                          const Shape& stride = 1, const Shape& padding = 0, const Shape& output_padding = 0,
                          int64_t groups = 1, const Shape& dilation = 1);
Variable conv_transpose3d(const Variable& x, const Variable& weight, const Variable& bias = {},
                          const Shape& stride = 1, const Shape& padding = 0, const Shape& output_padding = 0,
                          int64_t groups = 1, const Shape& dilation = 1);
/// @}

/// The windows of images as columns, and their sum where they came from; each is the other's gradient.
/// @{
Variable unfold(const Variable& x, const Shape& kernel_size, const Shape& dilation = 1,
                const Shape& padding = 0, const Shape& stride = 1);
Variable fold(const Variable& x, const Shape& output_size, const Shape& kernel_size,
              const Shape& dilation = 1, const Shape& padding = 0, const Shape& stride = 1);
/// @}

}  // namespace tessera
