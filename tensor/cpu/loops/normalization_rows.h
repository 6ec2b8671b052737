#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"

namespace tessera::kernels::cpu {

/// Layer norm and RMS norm of contiguous rows of n values, A = float or double. A null weight is 1, a null
/// bias 0; a null mean means RMS norm, which subtracts none.
template <class A>
struct NormalizationRows {
  /// sum = x + delta, or x itself where delta is null (nothing is then written); y = (sum - mean) rstd weight
  /// + bias, with rstd = 1 / sqrt(mean((sum - mean)^2) + eps); mean and rstd: one per row. sum may be x or
  /// delta.
  void (*forward)(const A* x, const A* delta, int64_t rows, int64_t n, const A* weight, const A* bias, A eps,
                  A* sum, A* y, A* mean, A* rstd);
  /// Recomputes y from the forward's statistics, with the same bits.
  void (*scale)(const A* x, int64_t rows, int64_t n, const A* weight, const A* bias, const A* mean,
                const A* rstd, A* y);
  /// dx from dy, plus `base` unless it is null; adds to dweight and dbias, of n values each. The last three
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
