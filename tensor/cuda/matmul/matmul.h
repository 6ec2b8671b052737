#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::kernels::cuda {

/// The product of kernels::cpu::matmul (tensor/cpu/matmul.h), by cuBLASLt: floating dtypes; sums in f32 for
/// the half types and for f32 (no TF32), in f64 for f64.
void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate);

}  // namespace tessera::kernels::cuda
