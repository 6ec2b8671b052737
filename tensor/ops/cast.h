#pragma once
#include "tensor/tensor.h"
namespace tessera::ops {
/// The elements converted to `dtype`; `x` itself when it already is.
Tensor cast(const Tensor& x, DType dtype);
}  // namespace tessera::ops
