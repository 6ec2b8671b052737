#pragma once

#include "autograd/variable.h"

/// Views of `x`, without copies except where noted. Semantics and errors are those of the members of Tensor
/// with these names. Nothing is saved. An in-place change of `x` or of a view changes both, and gradients
/// follow (autograd/README.md, "Views and in-place changes"). The result has the layout of the samples of the
/// batch, for dropout (autograd/views/sample_layout.h).
namespace tessera {

/// The same elements under another shape; one extent may be -1. Copies if strides cannot express the shape.
Variable reshape(const Variable& x, const Shape& shape);
/// As `reshape`, but throws ShapeError where that would copy.
Variable view(const Variable& x, const Shape& shape);
/// Joins dimensions start..end into one; copies if strides cannot express it.
Variable flatten(const Variable& x, int64_t start = 0, int64_t end = -1);
/// Exchanges two dimensions.
Variable transpose(const Variable& x, int64_t dim0, int64_t dim1);
/// Dimension i of the result is dimension `order[i]` of x.
Variable permute(const Variable& x, const Shape& order);
/// Broadcasts extents of 1 (and new leading dimensions) by stride 0; -1 keeps an extent.
Variable expand(const Variable& x, const Shape& shape);
/// Every `step`-th element from `start` to before `end` along `dim`; negative bounds count from the end and
/// are clamped.
Variable slice(const Variable& x, int64_t dim, int64_t start, int64_t end, int64_t step = 1);
/// Elements start to start + length - 1 along `dim`; x itself when those are all.
Variable narrow(const Variable& x, int64_t dim, int64_t start, int64_t length);
/// The elements at index `i` of `dim`, without that dimension.
Variable select(const Variable& x, int64_t dim, int64_t i);
/// With a new dimension of extent 1 at position `dim`; -1 is after the last one.
Variable unsqueeze(const Variable& x, int64_t dim);
/// Without `dim`. Its extent must be 1.
Variable squeeze(const Variable& x, int64_t dim);
/// Without all dimensions of extent 1.
Variable squeeze(const Variable& x);
/// The transpose of a matrix; a vector or a 0-dim Variable itself. Throws ShapeError for more dimensions.
Variable t(const Variable& x);

}  // namespace tessera
