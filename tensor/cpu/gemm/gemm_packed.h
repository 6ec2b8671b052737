#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/tensor.h"

/// f32 products by our own kernels (tensor/cpu/gemm/packed_product.h); README.md in this folder has the
/// blocks and their reasons.
namespace tessera::kernels::cpu {

/// One product in the calling thread; `bias` (n, or null) is added last. An element's bits depend on k, the
/// instruction set and its row and column alone: neither on m, n, nor on the number of threads. With
/// `streams` c is written past the caches: it has one range, and its panels begin on cache lines.
void gemm_packed_f32(const Gemm<float>& gemm, const float* bias, bool streams = false);

/// As `matmul` of tensor/cpu/matmul.h, for f32, none of extent 0.
void matmul_packed_f32(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                       bool accumulate);

/// A second operand b (k, n), packed once for several products.
class PackedOperand {
 public:
  /// Memory for operands of up to (k, n).
  PackedOperand(int64_t k, int64_t n);

  /// Packs a matrix with rows `leading` elements apart, or, `transposed`, with columns.
  void pack(const float* b, int64_t leading, bool transposed, int64_t k, int64_t n);
  /// The same by all threads.
  void pack_in_parallel(const float* b, int64_t leading, bool transposed, int64_t k, int64_t n);

  /// c (m, n) = a (m, depth), rows `lda` apart, times rows first .. first + depth of b, in the calling
  /// thread; `accumulate` and `bias` as in `PackedProduct`.
  void multiply(int64_t m, const float* a, int64_t lda, int64_t first, int64_t depth, float* c, int64_t ldc,
                bool accumulate, const float* bias) const;

 private:
  Scratch<float> panels_;
  int64_t n_ = 0, panel_ = 0;
};

}  // namespace tessera::kernels::cpu
