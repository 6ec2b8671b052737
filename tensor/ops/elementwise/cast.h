#pragma once

#include "tensor/tensor.h"

namespace tessera::ops {

/// The elements converted to `dtype`; `x` itself when it has that dtype. To a narrower floating type: to
/// nearest, ties to even. Floating to integer: towards 0, clamped to the range, NaN to 0. Integer to integer:
/// modulo 2^bits. To bool: whether the value is not 0.
Tensor cast(const Tensor& x, DType dtype);

/// out = x, converted to out's dtype; x broadcasts to out's shape.
void cast_out(const Tensor& x, const Tensor& out);

}  // namespace tessera::ops
