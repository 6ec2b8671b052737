#pragma once

#include "tensor/tensor.h"

/// Elements by mask or position. Positions are i64 or i32, and negative ones count from the end; masks are
/// bool. Errors are those of `Tensor::index`.
namespace tessera::ops {

/// The coordinates of the elements that are not 0, (n, ndim) in i64, in row-major order. Throws DeviceError
/// on meta: the number depends on the values.
Tensor nonzero(const Tensor& x);
/// The elements of `x` where `mask` is true, one-dimensional; the two broadcast. Throws DeviceError for a
/// mask on meta.
Tensor masked_select(const Tensor& x, const Tensor& mask);
/// x with the elements where `mask` is true taken from `source`, in order; the mask broadcasts to x's shape.
/// Throws ShapeError for too few elements in `source`.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);
/// The elements of x, seen as one-dimensional, at positions `index`; the result has the shape of `index`.
Tensor take(const Tensor& x, const Tensor& index);
/// A copy of x with result[..., index[i], ...] = source[..., i, ...] along `dim`; index (n,). The last of
/// several values for one element stays.
Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
/// `index_copy` in place, and the same with one number for all elements.
/// @{
void index_copy_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
void index_fill_(const Tensor& x, int64_t dim, const Tensor& index, const Scalar& value);
/// @}

}  // namespace tessera::ops
