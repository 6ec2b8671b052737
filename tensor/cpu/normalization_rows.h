#pragma once

#include <cstdint>

#include "tensor/cpu/isa.h"

namespace tessera::kernels::cpu {

/// Layer and root-mean-square normalization of contiguous rows of n numbers, A = float or double. Null
/// weight: 1; null bias: 0; a null mean asks for RMS norm, which subtracts none.
template <class A>
struct NormalizationRows {
  /// y = (x - mean) rstd weight + bias, with rstd = 1 / sqrt(mean((x - mean)^2) + eps); mean and rstd: one
  /// per row.
  void (*forward)(const A* x, int64_t rows, int64_t n, const A* weight, const A* bias, A eps, A* y, A* mean,
                  A* rstd);
  /// dx from dy; adds to dweight and dbias, of n numbers each. The last three may be null.
  void (*backward)(const A* x, const A* dy, int64_t rows, int64_t n, const A* weight, const A* mean,
                   const A* rstd, A* dx, A* dweight, A* dbias);
};

// clang-format off
TESSERA_DECLARE_PER_ISA(
  const NormalizationRows<float>& normalization_rows_f32();
  const NormalizationRows<double>& normalization_rows_f64();
)
// clang-format on

}  // namespace tessera::kernels::cpu
