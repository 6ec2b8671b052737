#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::kernels::cuda {

/// The position along `dim` of the largest element, or the smallest: the first of equals, and the first NaN
/// where there is one (tensor/cpu/arg_extreme.h).
void arg_extreme(bool largest, int64_t dim, const Tensor& x, const Tensor& out);

}  // namespace tessera::kernels::cuda
