#pragma once

#include "tensor/ops/reduction.h"

namespace tessera::kernels::cpu {

/// out: of x's rank; its extent is 1 along a reduced dimension and x's along the others. `parameter`: see
/// ops::Reduction. Any strides.
void reduce(ops::Reduction kind, double parameter, const Tensor& x, const Tensor& out);

/// out: i64, of x's shape with extent 1 along `dim`: where the largest (or smallest) element stands, the
/// first of equals; a NaN counts as the most extreme.
void arg_extreme(bool largest, int64_t dim, const Tensor& x, const Tensor& out);

}  // namespace tessera::kernels::cpu
