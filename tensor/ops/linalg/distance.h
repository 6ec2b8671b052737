#pragma once

#include "tensor/tensor.h"

namespace tessera::ops {

/// The distances (sum |a_i - b_j|^p)^(1/p) between the rows of a (..., n, d) and those of b (..., m, d),
/// with leading dimensions that broadcast: (..., n, m); for p = 0 how many coordinates differ, for an
/// infinite p the largest difference. bf16 and f16 are computed in f32. For p = 2 and more than 25 rows in
/// either it is a product of matrices, except for close rows. Throws ValueError for a negative p or NaN,
/// ShapeError, DTypeError for dtypes that are not floating or differ.
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);

/// The gradient of `cdist` at a, from its result y and the gradient of that; 0 where a distance is 0. The
/// operands have one dtype, f32 or f64, and equal leading dimensions.
Tensor cdist_backward(const Tensor& a, const Tensor& b, double p, const Tensor& y, const Tensor& dy);

}  // namespace tessera::ops
