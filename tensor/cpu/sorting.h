#pragma once

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// The first elements of the order along `dim`, as many as `values` and `indices` (i64, contiguous) hold
/// there. Any strides of x.
void sort(const Tensor& x, const Tensor& values, const Tensor& indices, int64_t dim, bool descending);
void cumsum(const Tensor& x, const Tensor& out, int64_t dim);

}  // namespace tessera::kernels::cpu
