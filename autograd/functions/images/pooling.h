#pragma once

#include <utility>

#include "autograd/variable.h"

/// Pooling of planes: the last one, two or three dimensions of x (N, C, ...) or (C, ...), in any floating
/// dtype. Arguments are PyTorch's; one entry of a list stands for all dimensions, and an empty `stride` is
/// the kernel's size. Throws ShapeError for another rank, lists of other lengths, and a window larger than
/// the padded x (with `ceil_mode`, by the stride or more); ValueError for sizes below 1 and a padding of more
/// than half the kernel.
namespace tessera {

/// The largest element of each window; the gradient goes to it alone. Saves the indices.
/// @{
Variable max_pool1d(const Variable& x, const Shape& kernel_size, const Shape& stride = {},
                    const Shape& padding = 0, const Shape& dilation = 1, bool ceil_mode = false);
Variable max_pool2d(const Variable& x, const Shape& kernel_size, const Shape& stride = {},
                    const Shape& padding = 0, const Shape& dilation = 1, bool ceil_mode = false);
Variable max_pool3d(const Variable& x, const Shape& kernel_size, const Shape& stride = {},
                    const Shape& padding = 0, const Shape& dilation = 1, bool ceil_mode = false);
/// @}
/// The same with the index of each in its plane, in row-major order: PyTorch's `return_indices=True`.
/// @{
ValuesAndIndices<Variable> max_pool1d_with_indices(const Variable& x, const Shape& kernel_size,
                                                   const Shape& stride = {}, const Shape& padding = 0,
                                                   const Shape& dilation = 1, bool ceil_mode = false);
ValuesAndIndices<Variable> max_pool2d_with_indices(const Variable& x, const Shape& kernel_size,
                                                   const Shape& stride = {}, const Shape& padding = 0,
                                                   const Shape& dilation = 1, bool ceil_mode = false);
ValuesAndIndices<Variable> max_pool3d_with_indices(const Variable& x, const Shape& kernel_size,
                                                   const Shape& stride = {}, const Shape& padding = 0,
                                                   const Shape& dilation = 1, bool ceil_mode = false);
/// @}

/// The average of each window. Padding counts as zeros, or with `count_include_pad = false` not at all; a
/// `divisor_override` that is not 0 divides the sum instead. Saves nothing.
/// @{
Variable avg_pool1d(const Variable& x, const Shape& kernel_size, const Shape& stride = {},
                    const Shape& padding = 0, bool ceil_mode = false, bool count_include_pad = true);
Variable avg_pool2d(const Variable& x, const Shape& kernel_size, const Shape& stride = {},
                    const Shape& padding = 0, bool ceil_mode = false, bool count_include_pad = true,
                    int64_t divisor_override = 0);
Variable avg_pool3d(const Variable& x, const Shape& kernel_size, const Shape& stride = {},
                    const Shape& padding = 0, bool ceil_mode = false, bool count_include_pad = true,
                    int64_t divisor_override = 0);
/// @}

/// Windows that divide each dimension into `output_size` of nearly one size, which may overlap by an element;
/// -1 keeps the extent, as PyTorch's None.
/// @{
Variable adaptive_max_pool1d(const Variable& x, const Shape& output_size);
Variable adaptive_max_pool2d(const Variable& x, const Shape& output_size);
Variable adaptive_max_pool3d(const Variable& x, const Shape& output_size);
ValuesAndIndices<Variable> adaptive_max_pool1d_with_indices(const Variable& x, const Shape& output_size);
ValuesAndIndices<Variable> adaptive_max_pool2d_with_indices(const Variable& x, const Shape& output_size);
ValuesAndIndices<Variable> adaptive_max_pool3d_with_indices(const Variable& x, const Shape& output_size);
Variable adaptive_avg_pool1d(const Variable& x, const Shape& output_size);
Variable adaptive_avg_pool2d(const Variable& x, const Shape& output_size);
Variable adaptive_avg_pool3d(const Variable& x, const Shape& output_size);
/// @}

/// The average, or the largest element, of each channel of x (N, C, ...): (N, C).
/// @{
Variable global_avg_pool(const Variable& x);
Variable global_max_pool(const Variable& x);
/// @}

/// (sum of x^p over each window)^(1/p), p not 0; a window cut off by `ceil_mode` is scaled up to a full one,
/// as in PyTorch. The gradient is NaN where the sum is 0.
/// @{
Variable lp_pool1d(const Variable& x, double p, const Shape& kernel_size, const Shape& stride = {},
                   bool ceil_mode = false);
Variable lp_pool2d(const Variable& x, double p, const Shape& kernel_size, const Shape& stride = {},
                   bool ceil_mode = false);
Variable lp_pool3d(const Variable& x, double p, const Shape& kernel_size, const Shape& stride = {},
                   bool ceil_mode = false);
/// @}

/// The values of a max pooling at their indices, and zeros elsewhere. The result's planes have `output_size`,
/// or by default the least one that the windows cover, (n - 1) stride - 2 padding + kernel. Saves the
/// indices. Throws ShapeError for indices of another shape, IndexError for one outside the plane.
/// @{
Variable max_unpool1d(const Variable& x, const Tensor& indices, const Shape& kernel_size,
                      const Shape& stride = {}, const Shape& padding = 0, const Shape& output_size = {});
Variable max_unpool2d(const Variable& x, const Tensor& indices, const Shape& kernel_size,
                      const Shape& stride = {}, const Shape& padding = 0, const Shape& output_size = {});
Variable max_unpool3d(const Variable& x, const Tensor& indices, const Shape& kernel_size,
                      const Shape& stride = {}, const Shape& padding = 0, const Shape& output_size = {});
/// @}

}  // namespace tessera
