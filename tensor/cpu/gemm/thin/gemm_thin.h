#pragma once  // internal

#include <algorithm>
#include <cstdint>

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/gemm/thin/thin_product.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/tensor.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {

/// The most rows of c; with more, packing the second operand pays.
inline constexpr int64_t thin_rows = 16;

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
      thin_product(ThinProduct<T>{m, columns, k, a, b + j * ldb, ldb, sums.get(), thin_columns_at_once});
      finish(j, columns, sums.get());
    }
  });
}

/// Whether `matmul_thin` takes the product: one of f32 or bf16, at most `thin_rows` rows of c, a row-major
/// and b stored transposed, with the backend chosen automatically.
bool is_thin_product(const Tensor& a, const Tensor& b, const Tensor& out);

/// As `matmul` of tensor/cpu/matmul.h, where `is_thin_product`. Threads share the columns of c, and the bits
/// do not depend on their number.
void matmul_thin(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate);

/// c (m, n) = a b^T + bias (n, or null) of m <= `thin_rows` rows, in all threads; with `accumulate` it is
/// added to c.
template <class T, class C>
void gemm_thin(const Gemm<T, C>& gemm, const T* bias);

}  // namespace tessera::kernels::cpu
