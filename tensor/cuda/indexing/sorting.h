#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::kernels::cuda {

/// Writes the first elements of the sorted order along `dim`, with the contract and the results of
/// tensor/cpu/indexing/sorting.h: a NaN is larger than all, and equal elements keep their order.
void sort(const Tensor& x, const Tensor& values, const Tensor& indices, int64_t dim, bool descending);

}  // namespace tessera::kernels::cuda
