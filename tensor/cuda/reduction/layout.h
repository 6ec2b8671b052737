#pragma once  // internal

#include <cstdint>

#include "tensor/tensor.h"

namespace tessera::kernels::cuda {

/// Where the elements of a reduction lie: those of result r begin at x[kept.offset(r)], and element i of it
/// is reduced.offset(i) further. Dimensions are joined where they are evenly spaced.
struct ReductionLayout {
  struct Dims {
    int ndim = 0;
    uint32_t extents[Shape::max_ndim] = {};
    int64_t strides[Shape::max_ndim] = {};
  };
  Dims kept, reduced;
  uint32_t results = 1, count = 1;
  /// Whether neighbouring results are neighbours in memory, and the elements of one result are not: threads
  /// then take a result each. Otherwise a row of threads takes one.
  bool columns = false;
};

/// `out` has x's rank, extent 1 along reduced dimensions and x's extents along the others. Throws ValueError
/// for 2^32 elements per result, or results, and more.
ReductionLayout reduction_layout(const Tensor& x, const Tensor& out);

}  // namespace tessera::kernels::cuda
