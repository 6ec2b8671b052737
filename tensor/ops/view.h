#pragma once

#include <vector>

#include "tensor/tensor.h"

/// The methods of Tensor with these names as functions: `reshape(x, {2, -1})` is `x.reshape({2, -1})`.
namespace tessera::ops {

/// Views; `reshape` and `flatten` copy where strides cannot express the result.
/// @{
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor view(const Tensor& x, const Shape& shape);
Tensor flatten(const Tensor& x, int64_t start = 0, int64_t end = -1);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);
Tensor permute(const Tensor& x, const Shape& order);
Tensor expand(const Tensor& x, const Shape& shape);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor slice(const Tensor& x, int64_t dim, int64_t start, int64_t end, int64_t step = 1);
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);
Tensor select(const Tensor& x, int64_t dim, int64_t i);
Tensor unsqueeze(const Tensor& x, int64_t dim);
Tensor squeeze(const Tensor& x, int64_t dim);
Tensor squeeze(const Tensor& x);
/// @}
/// The transpose of a matrix; a vector or a 0-dim tensor itself. Throws ShapeError for more dimensions.
Tensor t(const Tensor& x);
/// The views without dimension `dim`, one per index of it.
std::vector<Tensor> unbind(const Tensor& x, int64_t dim = 0);
/// A copy; and x itself if it is contiguous, else a copy.
/// @{
Tensor clone(const Tensor& x);
Tensor contiguous(const Tensor& x);
/// @}

}  // namespace tessera::ops
