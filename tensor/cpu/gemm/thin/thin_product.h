#pragma once  // internal

#include <cstdint>
#include <type_traits>

#include "tensor/cpu/isa.h"
#include "tensor/types/float_types.h"

/// Products of a few rows with a matrix that is read once, in place: those of generating text, where each
/// weight is multiplied with one row a sequence. Such a product takes the time of reading the matrix, so
/// nothing is packed, and elements of 16 or 8 bits are widened in registers. Sums are f32.
namespace tessera::kernels::cpu {

/// c (m, n) = a (m, k) b^T, where b (n, k) has contiguous rows, as a weight (out, in) has. Every element is
/// summed in an order that depends on k and the instruction set alone: neither on m, n nor its position.
template <class T>
struct ThinProduct {
  int64_t m, n, k;
  const float* a;  ///< as `arrange_thin` writes it; rows `thin_stride(k)` apart
  const T* b;
  int64_t ldb;
  float* c;
  int64_t ldc;
};

/// The distance between rows of an arranged operand.
[[gnu::always_inline]] constexpr int64_t thin_stride(int64_t k) {
  return (k + 31) / 32 * 32;
}

/// c (m, n) = a (m, k) b, where b (k, n) has contiguous rows, as the values in attention. Every element is
/// summed over k in order.
template <class T>
struct ThinRowProduct {
  int64_t m, n, k;
  const float* a;
  int64_t lda;
  const T* b;
  int64_t ldb;
  float* c;
  int64_t ldc;
};

TESSERA_DECLARE_PER_ISA(
    // Rows of k values in the order of `thin_product` for this type of b, followed by zeros.
    void arrange_thin_f32(const float* from, int64_t leading, int64_t m, int64_t k, float* to);
    void arrange_thin_bf16(const bfloat16* from, int64_t leading, int64_t m, int64_t k, float* to);
    // The same order as that of bf16, from f32.
    void arrange_thin_wide_bf16(const float* from, int64_t leading, int64_t m, int64_t k, float* to);
    void thin_product_f32(const ThinProduct<float>& product);
    void thin_product_bf16(const ThinProduct<bfloat16>& product);
    // The order of f32.
    void thin_product_int8(const ThinProduct<int8_t>& product);
    void thin_row_product_f32(const ThinRowProduct<float>& product);
    void thin_row_product_bf16(const ThinRowProduct<bfloat16>& product);)

inline void arrange_thin(const float* from, int64_t leading, int64_t m, int64_t k, float* to) {
  TESSERA_PER_ISA(arrange_thin_f32)(from, leading, m, k, to);
}
inline void arrange_thin(const bfloat16* from, int64_t leading, int64_t m, int64_t k, float* to) {
  TESSERA_PER_ISA(arrange_thin_bf16)(from, leading, m, k, to);
}
/// f32 rows in the order for a b of type T.
template <class T>
void arrange_thin_sums(const float* from, int64_t leading, int64_t m, int64_t k, float* to) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, int8_t>)
    TESSERA_PER_ISA(arrange_thin_f32)(from, leading, m, k, to);
  else
    TESSERA_PER_ISA(arrange_thin_wide_bf16)(from, leading, m, k, to);
}
inline void thin_product(const ThinProduct<float>& product) {
  TESSERA_PER_ISA(thin_product_f32)(product);
}
inline void thin_product(const ThinProduct<bfloat16>& product) {
  TESSERA_PER_ISA(thin_product_bf16)(product);
}
inline void thin_product(const ThinProduct<int8_t>& product) {
  TESSERA_PER_ISA(thin_product_int8)(product);
}
inline void thin_row_product(const ThinRowProduct<float>& product) {
  TESSERA_PER_ISA(thin_row_product_f32)(product);
}
inline void thin_row_product(const ThinRowProduct<bfloat16>& product) {
  TESSERA_PER_ISA(thin_row_product_bf16)(product);
}

}  // namespace tessera::kernels::cpu
