#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::linalg {

/// Throws naming `where` unless x is (..., m, n): ShapeError; of f32 or f64: DTypeError; defined: ValueError.
void require_matrices(const char* where, const Tensor& x);
/// The same, and ShapeError unless m = n.
void require_square(const char* where, const Tensor& x);
/// The extents before the last two, or the last `inner`.
Shape batch_shape(const Shape& shape, int inner = 2);
/// `batch` followed by `inner`.
Shape joined(const Shape& batch, const Shape& inner);

}  // namespace tessera::linalg
