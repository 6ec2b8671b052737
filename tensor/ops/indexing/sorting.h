#pragma once

#include "tensor/tensor.h"

/// Sorting along dimension `dim` of a tensor of any dtype. All throw IndexError for a dimension outside x.
/// NaN counts as larger than every other value; equal elements keep their order.
namespace tessera::ops {

/// Values of x's dtype, and the position of each along the dimension before sorting (i64), of one shape.
using Sorted = ValuesAndIndices<Tensor>;

/// All elements in rising order, or falling.
Sorted sort(const Tensor& x, int64_t dim = -1, bool descending = false);
/// The indices of `sort` alone.
Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false);
/// The k largest in falling order, or the k smallest in rising order. Throws ValueError for k outside [0,
/// extent].
Sorted topk(const Tensor& x, int64_t k, int64_t dim = -1, bool largest = true);

/// The middle value along `dim` in rising order, of two the smaller, and its index in x; NaN if there is one.
/// Throws ShapeError over nothing.
Sorted median_along(const Tensor& x, int64_t dim, bool keepdim = false);
/// The same over all elements, the value alone.
Tensor median(const Tensor& x);

/// Element i is the sum of elements 0 to i. Floating dtypes are added up in f64; integers and bool give i64.
Tensor cumsum(const Tensor& x, int64_t dim = -1);

}  // namespace tessera::ops
