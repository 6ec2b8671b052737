#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::kernels::cuda {

/// As kernels::cpu::multinomial, to the bit; wrong weights are found late
/// (tensor/cuda/runtime/late_errors.h), and a row without a positive one gives zeros.
void multinomial(const Tensor& weights, const Tensor& u, bool replacement, const Tensor& out);

}  // namespace tessera::kernels::cuda
