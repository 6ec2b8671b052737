#pragma once  // internal

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tensor/cpu/gemm/gemm_eigen.h"
#include "tensor/types/float_types.h"

namespace tessera::kernels::cpu {

template <class T>
inline constexpr bool is_half = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

/// A stored value, converted to the type that is computed in.
template <class A, class T>
inline A widen(T value) {
  if constexpr (is_half<T>)
    return static_cast<A>(static_cast<float>(value));
  else
    return static_cast<A>(value);
}

/// A computed value, rounded to the type that it is stored in.
template <class T, class A>
inline T narrow(A value) {
  if constexpr (is_half<T>)
    return T(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

// Contiguous values; half types are converted by the processor's instructions.
inline void widen_contiguous(const float* x, int64_t n, float* row) {
  std::memcpy(row, x, n * sizeof(float));
}
inline void widen_contiguous(const bfloat16* x, int64_t n, float* row) {
  TESSERA_PER_ISA(widen_bf16)(x, n, row);
}
inline void widen_contiguous(const float16* x, int64_t n, float* row) {
  TESSERA_PER_ISA(widen_f16)(x, n, row);
}
inline void narrow_contiguous(const float* row, int64_t n, bfloat16* out) {
  TESSERA_PER_ISA(narrow_bf16)(row, n, out);
}
inline void narrow_contiguous(const float* row, int64_t n, float16* out) {
  TESSERA_PER_ISA(narrow_f16)(row, n, out);
}

inline void narrow_contiguous(const float* row, int64_t n, float* out) {
  std::memcpy(out, row, n * sizeof(float));
}

template <class A, class T>
inline void widen_row(const T* x, int64_t step, int64_t n, A* row) {
  if constexpr (is_half<T> && std::is_same_v<A, float>)
    if (step == 1) return widen_contiguous(x, n, row);
  for (int64_t i = 0; i < n; ++i) row[i] = widen<A>(x[i * step]);
}

template <class T, class A>
inline void narrow_row(const A* row, int64_t step, int64_t n, T* out) {
  if constexpr (is_half<T> && std::is_same_v<A, float>)
    if (step == 1) return narrow_contiguous(row, n, out);
  for (int64_t i = 0; i < n; ++i) out[i * step] = narrow<T>(row[i]);
}

}  // namespace tessera::kernels::cpu
