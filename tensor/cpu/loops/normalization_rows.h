#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa_bf16.h"
#include "tensor/types/accumulator.h"

namespace tessera::kernels::cpu {

/// Layer norm and RMS norm of contiguous rows of n values of a floating type T, computed in A. A null weight
/// is 1, a null bias 0; a null mean means RMS norm, which subtracts none.
template <class T>
struct NormalizationRows {
  using A = accumulator_of<T>;

  /// Forward: sum = x + delta, rounded to T, or x itself where delta is null (nothing is then written);
  /// y = (sum - mean) rstd weight + bias, with rstd = 1 / sqrt(mean((sum - mean)^2) + eps); mean and rstd:
  /// one per row. sum may be x or delta. One function for each type that delta may have.
  /// @{
  void (*forward)(const T* x, const T* delta, int64_t rows, int64_t n, const A* weight, const A* bias, A eps,
                  T* sum, T* y, A* mean, A* rstd);
  void (*forward_wide)(const T* x, const A* delta, int64_t rows, int64_t n, const A* weight, const A* bias,
                       A eps, T* sum, T* y, A* mean, A* rstd);
  /// @}
  /// Recomputes y from the forward's statistics, with the same bits.
  void (*scale)(const T* x, int64_t rows, int64_t n, const A* weight, const A* bias, const A* mean,
                const A* rstd, T* y);
  /// dx from dy, plus `base` unless it is null; adds to dweight and dbias, of n values each. The last three
  /// may be null; dx may be x. The second function writes dx in A, and rounded to T unless that is null.
  /// @{
  void (*backward)(const T* x, const T* dy, const T* base, int64_t rows, int64_t n, const A* weight,
                   const A* mean, const A* rstd, T* dx, A* dweight, A* dbias);
  void (*backward_wide)(const T* x, const T* dy, const T* base, int64_t rows, int64_t n, const A* weight,
                        const A* mean, const A* rstd, A* dx, T* rounded_dx, A* dweight, A* dbias);
  /// @}
};

// clang-format off
TESSERA_DECLARE_PER_ISA_BF16(
  const NormalizationRows<float>& normalization_rows_f32();
  const NormalizationRows<double>& normalization_rows_f64();
  const NormalizationRows<bfloat16>& normalization_rows_bf16();
  const NormalizationRows<float16>& normalization_rows_f16();
)
// clang-format on

}  // namespace tessera::kernels::cpu
