#pragma once

#include "autograd/functions/layers/dropout.h"

/// Reading and writing by index, as in tensor/ops/indexing/indexing.h. Only indices are saved.
namespace tessera {

/// Rows of a table: ids (...) and weight (V, C) give (..., C). The gradient sums the rows of each id in the
/// order of their positions, in place where the weight's leaf has a buffer. The row `padding_idx` (-1: none)
/// gets no gradient.
Variable embedding(const Tensor& ids, const Variable& weight, int64_t padding_idx = -1);

/// dropout(weight[ids] + addend) in one pass, and both gradients in one: token and position embeddings. ids
/// (B, T), weight (V, C), addend (T, C), result (B, T, C), which holds the samples along B unless
/// `mask.samples` gives another layout; saves the ids.
Variable embedding_add(const Tensor& ids, const Variable& weight, const Variable& addend,
                       const DropoutMask& mask = {});

/// The elements of x at positions `index` (n,) along `dim`.
Variable index_select(const Variable& x, int64_t dim, const Tensor& index);
/// A copy of x with source[..., i, ...] added at index[i] of `dim`.
Variable index_add(const Variable& x, int64_t dim, const Tensor& index, const Variable& source);
/// Result[i][j][k] = x[i][index[i][j][k]][k] for dim = 1. `index` has as many dimensions as x and at most its
/// extents, except along `dim`; the result has the shape of `index`.
Variable gather(const Variable& x, int64_t dim, const Tensor& index);
/// A copy of x with result[i][index[i][j][k]][k] = source[i][j][k] for dim = 1. Of several elements that go
/// to one position the last one stays, but each of them receives the gradient of that position.
Variable scatter(const Variable& x, int64_t dim, const Tensor& index, const Variable& source);
/// The same with +=: elements that go to one position are added up.
Variable scatter_add(const Variable& x, int64_t dim, const Tensor& index, const Variable& source);
/// `gather` after broadcasting x and index against each other in all dimensions except `dim` (NumPy's
/// take_along_axis).
Variable take_along(const Variable& x, const Tensor& index, int64_t dim);

}  // namespace tessera
