#pragma once  // internal

#include <array>
#include <cstdint>

#include "tensor/tensor.h"

namespace tessera::kernels {

/// The iteration space of N operands of one shape, each with its own strides (in elements). Extents of 1 are
/// dropped, and neighbouring dimensions are joined where they are evenly spaced in every operand. The
/// innermost dimension is the last one.
template <int N>
struct StridedLoop {
  int ndim = 0;
  int64_t extents[Shape::max_ndim] = {};
  int64_t strides[N][Shape::max_ndim] = {};

  explicit StridedLoop(const Shape& shape, const std::array<const Strides*, N>& operands) {
    for (int i = 0; i < shape.ndim(); ++i) {
      if (shape[i] == 1) continue;
      bool joins = ndim > 0;
      for (int k = 0; joins && k < N; ++k) joins = strides[k][ndim - 1] == (*operands[k])[i] * shape[i];
      if (!joins) {
        extents[ndim++] = 1;
      }
      extents[ndim - 1] *= shape[i];
      for (int k = 0; k < N; ++k) strides[k][ndim - 1] = (*operands[k])[i];
    }
    if (ndim == 0) extents[ndim++] = 1;  // strides stay 0: one element
  }

  int64_t inner() const { return extents[ndim - 1]; }
  /// The number of rows along the innermost dimension.
  int64_t rows() const {
    int64_t n = 1;
    for (int i = 0; i + 1 < ndim; ++i) n *= extents[i];
    return n;
  }
  /// The offset of row `row` in each operand.
  void row_offsets(int64_t row, int64_t (&offsets)[N]) const {
    for (int k = 0; k < N; ++k) offsets[k] = 0;
    for (int i = ndim - 2; i >= 0; --i) {
      const int64_t index = row % extents[i];
      row /= extents[i];
      for (int k = 0; k < N; ++k) offsets[k] += index * strides[k][i];
    }
  }
};

}  // namespace tessera::kernels
