#pragma once  // internal

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/isa.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/tensor.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/float_types.h"

/// Products of a few rows with a matrix that is read once, in place: those of generating text, where each
/// weight is multiplied with one row a sequence. Such a product takes the time of reading the matrix, so
/// nothing is packed, and 16-bit elements are widened in registers. Sums are f32.
namespace tessera::kernels::cpu {

/// The most rows of c; with more, packing the second operand pays.
inline constexpr int64_t thin_rows = 16;

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
constexpr int64_t thin_stride(int64_t k) {
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
  if constexpr (std::is_same_v<T, float>)
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
inline void thin_row_product(const ThinRowProduct<float>& product) {
  TESSERA_PER_ISA(thin_row_product_f32)(product);
}
inline void thin_row_product(const ThinRowProduct<bfloat16>& product) {
  TESSERA_PER_ISA(thin_row_product_bf16)(product);
}

/// The most columns of c that are finished at a time, while their sums are in the cache.
inline constexpr int64_t thin_columns_at_once = 96;

/// The product of an arranged a (m, k) and b (n, k), in all threads: calls finish(first column, count, sums)
/// for ranges of columns that begin at a multiple of 32, which each step along k divides. Rows of `sums` are
/// `thin_columns_at_once` apart.
template <class T, class Finish>
void thin_columns(int64_t m, int64_t n, int64_t k, const float* a, const T* b, int64_t ldb,
                  const Finish& finish) {
  constexpr int64_t grain = 1 << 15;  // elements of b that are worth a second thread: 128 KiB of f32
  const int64_t step = n >= 2 * num_threads() * thin_columns_at_once ? thin_columns_at_once : 32;
  parallel_for((n + step - 1) / step, (grain + k * step - 1) / (k * step), [&](int64_t begin, int64_t end) {
    const Scratch<float> sums(m * thin_columns_at_once);
    for (int64_t j = begin * step; j < std::min(end * step, n); j += step) {
      const int64_t columns = std::min(step, n - j);
      thin_product(ThinProduct<T>{m, columns, k, a, b + j * ldb, ldb, sums.get(),
                                  thin_columns_at_once});
      finish(j, columns, sums.get());
    }
  });
}

/// Whether `matmul_thin` takes the product: one of f32 or bf16, at most `thin_rows` rows of c, a row-major and
/// b stored transposed, with the backend chosen automatically.
bool is_thin_product(const Tensor& a, const Tensor& b, const Tensor& out);

/// As `matmul` of tensor/cpu/matmul.h, where `is_thin_product`. Threads share the columns of c, and the bits
/// do not depend on their number.
void matmul_thin(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate);

/// c (m, n) = a b^T + bias (n, or null) of m <= `thin_rows` rows, in all threads; with `accumulate` it is
/// added to c.
template <class T, class C>
void gemm_thin(const Gemm<T, C>& gemm, const T* bias);

}  // namespace tessera::kernels::cpu
