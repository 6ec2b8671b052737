#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// out (i64, x's shape with extent 1 along `dim`) = the position of the largest (or smallest) element: the
/// first of equals; a NaN counts as the most extreme.
void arg_extreme(bool largest, int64_t dim, const Tensor& x, const Tensor& out);

}  // namespace tessera::kernels::cpu
