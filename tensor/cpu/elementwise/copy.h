#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// Copies the elements of `source` to `target`: same shape and dtype, any strides.
void copy(const Tensor& source, const Tensor& target);

/// Sets all bytes of the elements of `target` to zero.
void zero(const Tensor& target);

}  // namespace tessera::kernels::cpu
