#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// out = x with dimension i reversed where bit i of `dims` is set; any strides.
void flip(const Tensor& x, unsigned dims, const Tensor& out);

/// out = x where column - row <= diagonal (`lower`) or >= diagonal, and zeros elsewhere. Both are contiguous
/// (..., rows, columns).
void triangle(const Tensor& x, int64_t diagonal, bool lower, const Tensor& out);

}  // namespace tessera::kernels::cpu
