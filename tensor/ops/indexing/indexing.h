#pragma once

#include "tensor/tensor.h"

/// Reading and writing by index. Indices are i64 or i32 tensors of values in [0, extent). Other values throw
/// IndexError naming the index, its position and the limit, before anything is written. Mixed dtypes throw
/// DTypeError, shapes that do not fit ShapeError.
namespace tessera::ops {

/// Rows of a table: ids (...), weight (V, C); the result is (..., C).
Tensor embedding(const Tensor& ids, const Tensor& weight);

/// The gradient of `embedding` with respect to its table, added to `out` (V, C): dy (..., C) is added to the
/// rows `ids` (...). An f32 `out` takes bf16 and f16 gradients. The rows of one id are summed in the order of
/// their positions, so the bits do not depend on the number of threads.
void embedding_accumulate(const Tensor& out, const Tensor& dy, const Tensor& ids);

/// The elements of `x` at positions `index` (n,) along `dim`.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);

/// out[..., index[i], ...] += source[..., i, ...] along `dim`, as `embedding_accumulate`: the gradient of
/// `index_select`.
void index_add_out(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source);

/// A copy of `x` with `source` added to it, as `index_add_out`.
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);

/// out[i][j][k] = x[i][index[i][j][k]][k] for dim = 1. `index` has as many dimensions as x and at most its
/// extents, except along `dim`; the result has the shape of `index`.
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);

/// A copy of `x` with out[i][index[i][j][k]][k] = source[i][j][k] for dim = 1; the last of several values for
/// one element stays. `index` has at most the extents of `source` and, except along `dim`, those of `x`.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);

/// The same with +=, in the order of the positions along `dim`.
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);

/// `scatter_add` into `out` itself: the gradient of `gather`.
void scatter_add_out(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source);

/// `scatter`, `scatter_add` and `index_add` in place; `scatter_` also of one number.
/// @{
void scatter_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
void scatter_(const Tensor& x, int64_t dim, const Tensor& index, const Scalar& value);
void scatter_add_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
void index_add_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
/// @}

/// `gather` after broadcasting `x` and `index` against each other in all dimensions except `dim` (NumPy's
/// take_along_axis).
Tensor take_along(const Tensor& x, const Tensor& index, int64_t dim);

}  // namespace tessera::ops
