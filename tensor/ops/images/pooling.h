#pragma once

#include "tensor/arguments/pooling.h"

namespace tessera::ops {

/// Windows over the last one, two or three dimensions of x, as many as `kernel_size` has entries, or over
/// `dims` of them: a list of one entry stands for all dimensions.
struct PoolWindow {
  int dims = 2;        ///< 1, 2 or 3
  Shape kernel_size;   ///< elements of a window along each dimension, at least 1
  Shape stride = {};   ///< between windows, at least 1; empty: kernel_size
  Shape padding = 0;   ///< positions on each side of x, at most half of the kernel
  Shape dilation = 1;  ///< between the elements of a window, at least 1; for max pooling only
  /// The number of windows is rounded up: the last one may end behind the padding, but not begin there.
  bool ceil_mode = false;
};

/// What the sum of an average pooling's window is divided by.
struct AverageDivisor {
  bool count_include_pad = true;  ///< the number of positions in x and its padding, else of those in x
  int64_t divisor_override = 0;   ///< this number instead, where it is not 0
};

/// The largest element of each window. x (N, C, ...) or (C, ...) of any floating dtype; padding is never the
/// largest. Throws ShapeError for another rank, a window larger than the padded x, and lists of other
/// lengths; ValueError for sizes below 1, for a padding of more than half the kernel, and for a dilated
/// window that holds no element of x; DTypeError.
MaxPooled max_pool(const Tensor& x, const PoolWindow& window);
/// The same for `output_size` windows that divide x evenly: window i is from floor(i n / m) to before
/// ceil((i + 1) n / m) of n elements. Of `dims` dimensions; -1 in `output_size` keeps the extent.
MaxPooled adaptive_max_pool(const Tensor& x, int dims, const Shape& output_size);
/// The gradient at x, of shape `shape`, from that of the values and their indices: gradients at one index are
/// added up. `dims` dimensions of x make a plane.
Tensor max_pool_backward(const Tensor& dy, const Tensor& indices, const Shape& shape, int dims);

/// The average of each window, over padding as zeros. Throws as `max_pool`, and ValueError for a dilation.
Tensor avg_pool(const Tensor& x, const PoolWindow& window, const AverageDivisor& divisor = {});
/// Its gradient at x, of shape `shape`.
Tensor avg_pool_backward(const Tensor& dy, const Shape& shape, const PoolWindow& window,
                         const AverageDivisor& divisor = {});
/// The averages of the windows of `adaptive_max_pool`, and their gradient at x.
/// @{
Tensor adaptive_avg_pool(const Tensor& x, int dims, const Shape& output_size);
Tensor adaptive_avg_pool_backward(const Tensor& dy, const Shape& shape, int dims, const Shape& output_size);
/// @}

}  // namespace tessera::ops
