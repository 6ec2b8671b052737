#pragma once

#include <algorithm>
#include <optional>
#include <span>

#include "tensor/tensor.h"

namespace tessera {

/// How a matrix lies in memory, as matrix products take it: rows of `leading` elements, or, when
/// `transposed`, columns of `leading` elements.
struct MatrixLayout {
  bool transposed = false;  ///< whether columns, not rows, are contiguous
  int64_t leading = 1;      ///< elements from the start of a row (of a column if `transposed`) to the next
};

/// The layout of the last two dimensions of `x` (of at least 2); nullopt when neither has stride 1, or when
/// rows overlap (a broadcast): such a matrix has to be copied first.
inline std::optional<MatrixLayout> matrix_layout(const Tensor& x) {
  const int ndim = x.ndim();
  const int64_t rows = x.shape()[ndim - 2], columns = x.shape()[ndim - 1];
  const int64_t row_stride = x.strides()[ndim - 2], column_stride = x.strides()[ndim - 1];
  const int64_t wide = std::max<int64_t>(columns, 1), tall = std::max<int64_t>(rows, 1);
  if ((column_stride == 1 || columns <= 1) && (row_stride >= wide || rows <= 1))
    return MatrixLayout{false, rows <= 1 ? wide : row_stride};
  if ((row_stride == 1 || rows <= 1) && (column_stride >= tall || columns <= 1))
    return MatrixLayout{true, columns <= 1 ? tall : column_stride};
  return std::nullopt;
}

/// The dimensions before the matrix, of a shape or of strides.
inline Shape batch_dims(const Shape& shape) {
  return Shape(std::span<const int64_t>(shape.begin(), static_cast<size_t>(shape.ndim() - 2)));
}

}  // namespace tessera
