#pragma once  // internal

#include <cstdint>

#include "tensor/tensor.h"

namespace tessera::kernels::cuda {

/// The values of a contiguous i64 or i32 index, in a kernel.
struct IndexValues {
  const int64_t* wide;
  const int32_t* narrow;

  explicit IndexValues(const Tensor& index)
      : wide(index.dtype() == i64 ? static_cast<const int64_t*>(index.raw_data()) : nullptr),
        narrow(index.dtype() == i64 ? nullptr : static_cast<const int32_t*>(index.raw_data())) {}
  __device__ int64_t operator[](int64_t i) const { return wide != nullptr ? wide[i] : narrow[i]; }
};

/// The extents of a contiguous tensor seen as (outer, count, inner), where `count` is that of dimension
/// `dim`.
struct AroundDim {
  int64_t outer = 1, count, inner = 1;
  AroundDim(const Tensor& x, int64_t dim) : count(x.shape()[dim]) {
    for (int64_t i = 0; i < x.ndim(); ++i) (i < dim ? outer : inner) *= i == dim ? 1 : x.shape()[i];
  }
};

/// Calls `body` with a value of an unsigned type of the element's width.
template <class Body>
void by_width(DType dtype, const Body& body) {
  switch (size_of(dtype)) {
    case 8:
      return body(uint64_t());
    case 4:
      return body(uint32_t());
    case 2:
      return body(uint16_t());
    default:
      return body(uint8_t());
  }
}

}  // namespace tessera::kernels::cuda
