#pragma once  // internal

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tensor/cpu/isa.h"
#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/types/accumulator.h"

/// The conversions between values as stored and values as computed: of one value, of arrays, of rows. bf16
/// and f16 are computed in f32, by the conversions of tensor/types/float_types.h; kernels for AVX512-BF16
/// alone (tensor/cpu/gemm, isa/bf16, attention's rows) round to bf16 by its instruction.
namespace tessera::kernels::cpu {

template <class T>
inline constexpr bool is_half = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

/// A bool as it is stored: a byte that is 0 or 1.
struct Boolean {
  uint8_t byte;
};

/// A stored value, converted to the type that is computed in.
template <class A, class T>
TESSERA_ELEMENT A widen(T value) {
  if constexpr (is_half<T>)
    return static_cast<A>(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, Boolean>)
    return static_cast<A>(value.byte);
  else
    return static_cast<A>(value);
}

/// A computed value, rounded to the type that it is stored in.
template <class T, class A>
TESSERA_ELEMENT T narrow(A value) {
  if constexpr (is_half<T>)
    return T(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, Boolean>)
    return {static_cast<uint8_t>(value != A(0))};
  else
    return static_cast<T>(value);
}

// Loops over contiguous values. convert_block takes all pairs of dtypes; floating values become integers as
// `elementwise::to_integer` does.
TESSERA_DECLARE_PER_ISA(UnaryBlock convert_block(DType from, DType to);
                        void widen_bf16(const bfloat16* from, int64_t n, float* to);
                        void widen_f16(const float16* from, int64_t n, float* to);
                        void narrow_bf16(const float* from, int64_t n, bfloat16* to);
                        void narrow_f16(const float* from, int64_t n, float16* to);)

// Contiguous values of a floating type, to and from the type that they are computed in.
inline void widen_contiguous(const double* x, int64_t n, double* row) {
  std::memcpy(row, x, n * sizeof(double));
}
inline void widen_contiguous(const float* x, int64_t n, float* row) {
  std::memcpy(row, x, n * sizeof(float));
}
inline void widen_contiguous(const bfloat16* x, int64_t n, float* row) {
  TESSERA_PER_ISA(widen_bf16)(x, n, row);
}
inline void widen_contiguous(const float16* x, int64_t n, float* row) {
  TESSERA_PER_ISA(widen_f16)(x, n, row);
}
inline void narrow_contiguous(const double* row, int64_t n, double* out) {
  std::memcpy(out, row, n * sizeof(double));
}
inline void narrow_contiguous(const float* row, int64_t n, float* out) {
  std::memcpy(out, row, n * sizeof(float));
}
inline void narrow_contiguous(const float* row, int64_t n, bfloat16* out) {
  TESSERA_PER_ISA(narrow_bf16)(row, n, out);
}
inline void narrow_contiguous(const float* row, int64_t n, float16* out) {
  TESSERA_PER_ISA(narrow_f16)(row, n, out);
}

/// Values of any type that are `step` apart, as a contiguous row.
template <class A, class T>
inline void widen_row(const T* x, int64_t step, int64_t n, A* row) {
  if constexpr (is_half<T> && std::is_same_v<A, float>)
    if (step == 1) return widen_contiguous(x, n, row);
  for (int64_t i = 0; i < n; ++i) row[i] = widen<A>(x[i * step]);
}

/// A contiguous row as values of any type that are `step` apart.
template <class T, class A>
inline void narrow_row(const A* row, int64_t step, int64_t n, T* out) {
  if constexpr (is_half<T> && std::is_same_v<A, float>)
    if (step == 1) return narrow_contiguous(row, n, out);
  for (int64_t i = 0; i < n; ++i) out[i * step] = narrow<T>(row[i]);
}

}  // namespace tessera::kernels::cpu
