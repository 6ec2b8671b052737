#pragma once

#include <cstdint>

#include "tensor/cpu/isa.h"

namespace tessera::kernels::cpu {

/// Layer and root-mean-square normalization of contiguous rows of n numbers, A = float or double. Null
/// weight: 1; null bias: 0; a null mean asks for RMS norm, which subtracts none.
template <class A>
struct NormalizationRows {
  /// sum = x + delta, or x itself where delta is null (nothing is then written); y = (sum - mean) rstd weight
  /// + bias, with rstd = 1 / sqrt(mean((sum - mean)^2) + eps); mean and rstd: one per row. sum may be x or
  /// delta.
  void (*forward)(const A* x, const A* delta, int64_t rows, int64_t n, const A* weight, const A* bias, A eps,
                  A* sum, A* y, A* mean, A* rstd);
  /// y again, the same bits, from what the forward kept.
  void (*scale)(const A* x, int64_t rows, int64_t n, const A* weight, const A* bias, const A* mean,
                const A* rstd, A* y);
  /// dx from dy, plus `base` where there is one; adds to dweight and dbias, of n numbers each. The last three
  /// may be null; dx may be x.
  void (*backward)(const A* x, const A* dy, const A* base, int64_t rows, int64_t n, const A* weight,
                   const A* mean, const A* rstd, A* dx, A* dweight, A* dbias);
};

// clang-format off
TESSERA_DECLARE_PER_ISA(
  const NormalizationRows<float>& normalization_rows_f32();
  const NormalizationRows<double>& normalization_rows_f64();
)
// clang-format on

}  // namespace tessera::kernels::cpu
