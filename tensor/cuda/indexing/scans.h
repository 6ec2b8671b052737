#pragma once  // internal

#include "tensor/tensor.h"

/// Running sums and extremes along one dimension on CUDA devices, with the contract of
/// tensor/cpu/indexing/sorting.h. The order of additions is fixed: the bits are the same in every run.
namespace tessera::kernels::cuda {

void cumsum(const Tensor& x, const Tensor& out, int64_t dim);
void running_extreme(bool largest, const Tensor& x, const Tensor& indices, int64_t dim);

}  // namespace tessera::kernels::cuda
