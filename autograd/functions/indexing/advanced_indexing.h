#pragma once

#include "autograd/variable.h"

/// Elements by mask or position, as in tensor/ops/indexing/advanced_indexing.h. Only positions are saved.
namespace tessera {

/// The elements of `x` where `mask` (bool) is true, one-dimensional; the two broadcast.
Variable masked_select(const Variable& x, const Tensor& mask);
/// x with the elements where `mask` is true taken from `source`, in order; the mask broadcasts to x's shape.
Variable masked_scatter(const Variable& x, const Tensor& mask, const Variable& source);
/// The elements of x, seen as one-dimensional, at positions `index`; the result has the shape of `index`.
Variable take(const Variable& x, const Tensor& index);
/// A copy of x with result[..., index[i], ...] = source[..., i, ...] along `dim`. Of several values for one
/// element the last one stays, but each of them receives the gradient of that element, as in PyTorch.
Variable index_copy(const Variable& x, int64_t dim, const Tensor& index, const Variable& source);

}  // namespace tessera
