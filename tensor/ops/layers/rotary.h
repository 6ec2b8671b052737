#pragma once

#include "tensor/arguments/rotary.h"
#include "tensor/tensor.h"

namespace tessera::ops {

/// Rotary positions (Su et al. 2021, "RoFormer") of x (B, H, T, D), floating and of any strides with the last
/// 1: at position p, pair i of a head's elements turns by the angle p base^(-2 i / dims), so that the product
/// of a query and a key depends on the distance of their positions. With `inverse` it turns back, which is
/// the gradient's way. Angles are computed in f64. The result is stored as (B, T, H, D). Throws ShapeError
/// for other dimensions and for dims that are odd or above D, ValueError for a base or positions that are not
/// allowed, DTypeError.
Tensor rotary(const Tensor& x, const RotaryOptions& options = {}, bool inverse = false);

}  // namespace tessera::ops
