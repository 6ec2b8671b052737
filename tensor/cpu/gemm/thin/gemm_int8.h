#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/gemm/thin/gemm_thin.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// Multiplies column j of c (m, columns) by scales[j]. Rows are `thin_columns_at_once` apart.
inline void scale_thin_columns(int64_t m, int64_t columns, const float* scales, float* sums) {
  for (int64_t i = 0; i < m; ++i, sums += thin_columns_at_once)
    for (int64_t j = 0; j < columns; ++j) sums[j] *= scales[j];
}

/// As `ops::quantized_linear`: out (m, n) = a (m, k) W^T + bias (n) or undefined, all contiguous and of f32
/// or bf16; W[j, p] = scales[j] values[j, p], values (n, k) i8 stored as u8, scales (n) f32. At most
/// `thin_rows` rows of a read the values in place; more multiply with ranges of W's rows in a's dtype. `out`
/// has a's dtype, or without a bias f32.
void matmul_int8(const Tensor& a, const Tensor& values, const Tensor& scales, const Tensor& bias,
                 const Tensor& out);

}  // namespace tessera::kernels::cpu
