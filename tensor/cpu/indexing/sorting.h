#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// Writes the first elements of the sorted order along `dim`: as many as `values` and `indices` (i64,
/// contiguous) have there. x has any strides.
void sort(const Tensor& x, const Tensor& values, const Tensor& indices, int64_t dim, bool descending);
void cumsum(const Tensor& x, const Tensor& out, int64_t dim);
/// The position (i64, contiguous) of the largest, or smallest, of the elements 0 to i along `dim`: the last
/// of equals; the last NaN where there is one.
void running_extreme(bool largest, const Tensor& x, const Tensor& indices, int64_t dim);

}  // namespace tessera::kernels::cpu
