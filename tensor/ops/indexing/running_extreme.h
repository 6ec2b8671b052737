#pragma once

#include "tensor/tensor.h"

namespace tessera::ops {

/// i64, of x's shape: the position along `dim` of the largest of the elements 0 to i, or the smallest; the
/// last of equals, and the last NaN where there is one.
Tensor running_extreme(const Tensor& x, int64_t dim, bool largest);

}  // namespace tessera::ops
