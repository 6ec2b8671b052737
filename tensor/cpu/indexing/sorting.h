#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// Writes the first elements of the sorted order along `dim`: as many as `values` and `indices` (i64,
/// contiguous) have there. x has any strides.
void sort(const Tensor& x, const Tensor& values, const Tensor& indices, int64_t dim, bool descending);
void cumsum(const Tensor& x, const Tensor& out, int64_t dim);

}  // namespace tessera::kernels::cpu
