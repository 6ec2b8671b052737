#pragma once
#include "tensor/tensor.h"
namespace tessera::ops {
/// Every element 1.
Tensor ones(const Shape& shape, DType dtype, Device device = cpu());
}  // namespace tessera::ops
