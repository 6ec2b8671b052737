#pragma once

#include "autograd/variable.h"

/// Views of `x`, without copies except where noted. Semantics and errors are those of the members of Tensor
/// with these names. Nothing is saved. An in-place change of `x` or of a view changes both, and gradients
/// follow (autograd/README.md, "Views and in-place changes"). The result has the layout of the samples of the
/// batch, for dropout (autograd/sample_layout.h).
namespace tessera {

/// Copies if strides cannot express the shape.
Variable reshape(const Variable& x, const Shape& shape);
Variable view(const Variable& x, const Shape& shape);
/// Joins dimensions start..end into one; copies if strides cannot express it.
Variable flatten(const Variable& x, int64_t start = 0, int64_t end = -1);
Variable transpose(const Variable& x, int64_t dim0, int64_t dim1);
Variable permute(const Variable& x, const Shape& order);
Variable expand(const Variable& x, const Shape& shape);
Variable slice(const Variable& x, int64_t dim, int64_t start, int64_t end, int64_t step = 1);
Variable narrow(const Variable& x, int64_t dim, int64_t start, int64_t length);
Variable select(const Variable& x, int64_t dim, int64_t i);
Variable unsqueeze(const Variable& x, int64_t dim);
Variable squeeze(const Variable& x, int64_t dim);

}  // namespace tessera
