#pragma once  // internal

#include <cstdint>

#include "tensor/strided_loop.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cuda {

/// Where element i, in row-major order, of some dimensions of a tensor lies. Dimensions are joined where they
/// are evenly spaced.
struct Offsets {
  int ndim = 0;
  int64_t extents[Shape::max_ndim] = {}, strides[Shape::max_ndim] = {};

  Offsets() = default;
  Offsets(const Shape& shape, const Strides& steps) {
    const StridedLoop<1> loop(shape, {&steps});
    ndim = loop.ndim;
    for (int d = 0; d < ndim; ++d) extents[d] = loop.extents[d], strides[d] = loop.strides[0][d];
  }
  /// Of the dimensions from `begin` to before `end`.
  static Offsets of_part(const Tensor& x, int begin, int end) {
    Shape shape;
    Strides steps;
    for (int d = begin; d < end; ++d) shape.push_back(x.shape()[d]), steps.push_back(x.strides()[d]);
    return Offsets(shape, steps);
  }
  /// Of the lines along `dim`: all other dimensions.
  static Offsets of_lines(const Tensor& x, int64_t dim) {
    Shape shape = x.shape();
    shape[dim] = 1;
    return Offsets(shape, x.strides());
  }

  int64_t count() const {
    int64_t n = 1;
    for (int d = 0; d < ndim; ++d) n *= extents[d];
    return n;
  }
  __device__ int64_t operator[](int64_t i) const {
    int64_t offset = 0;
    for (int d = ndim - 1; d > 0; --d) {
      offset += i % extents[d] * strides[d];
      i /= extents[d];
    }
    return offset + i * strides[0];
  }
};

}  // namespace tessera::kernels::cuda
