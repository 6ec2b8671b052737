#include "tensor/cpu/gemm/thin_product.h"

#include <algorithm>

#include "tensor/cpu/gemm/gemm_onednn.h"
#include "tensor/cpu/gemm/product_blocks.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/scratch.h"

namespace tessera::kernels::cpu {
namespace {

/// Elements of b that are worth a second thread: 128 KiB of f32.
constexpr int64_t grain = 1 << 15;
/// Columns of c that are finished at a time, while their sums are in the first-level cache.
constexpr int64_t columns_at_once = 96;
/// Ranges of columns begin at a multiple of the kernel's.
constexpr int64_t column_step = 12;

/// sums (m, columns) plus bias and c, rounded once, to c.
template <class T, class C>
void finish(const Gemm<T, C>& block, const T* bias, float* sums) {
  float row[columns_at_once];
  for (int64_t i = 0; i < block.m; ++i, sums += columns_at_once) {
    C* const to = block.c + i * block.ldc;
    if (bias) {
      widen_contiguous(bias, block.n, row);
      for (int64_t j = 0; j < block.n; ++j) sums[j] += row[j];
    }
    if (block.accumulate) {
      widen_contiguous(to, block.n, row);
      for (int64_t j = 0; j < block.n; ++j) sums[j] += row[j];
    }
    narrow_contiguous(sums, block.n, to);
  }
}

template <class T, class C>
void run(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate) {
  gemm_thin(product_batch<T, C>(a, b, out, accumulate).first,
            bias.defined() ? static_cast<const T*>(bias.raw_data()) : nullptr);
}

}  // namespace

template <class T, class C>
void gemm_thin(const Gemm<T, C>& gemm, const T* bias) {
  const Scratch<float> a(gemm.m * thin_stride(gemm.k));
  arrange_thin(gemm.a, gemm.lda, gemm.m, gemm.k, a.get());
  const int64_t steps = (gemm.n + column_step - 1) / column_step;
  parallel_for(steps, std::max<int64_t>(1, grain / (gemm.k * column_step)), [&](int64_t begin, int64_t end) {
    const int64_t last = std::min(end * column_step, gemm.n);
    float sums[thin_rows * columns_at_once];
    for (int64_t j = begin * column_step; j < last; j += columns_at_once) {
      const Gemm<T, C> block = gemm.tile(0, gemm.m, j, std::min(columns_at_once, last - j));
      thin_product(ThinProduct<T>{.m = block.m,
                                  .n = block.n,
                                  .k = block.k,
                                  .a = a.get(),
                                  .b = block.b,
                                  .ldb = block.ldb,
                                  .c = sums,
                                  .ldc = columns_at_once});
      finish(block, bias ? bias + j : nullptr, sums);
    }
  });
}

template void gemm_thin(const Gemm<float>&, const float*);
template void gemm_thin(const Gemm<bfloat16>&, const bfloat16*);
template void gemm_thin(const Gemm<bfloat16, float>&, const bfloat16*);

bool is_thin_product(const Tensor& a, const Tensor& b, const Tensor& out) {
  if (a.dtype() != f32 && a.dtype() != bf16) return false;
  if (out.size(-2) > thin_rows || chosen_backend.load(std::memory_order_relaxed) != MatmulBackend::automatic)
    return false;
  return batch_dims(out.shape()).numel() == 1 && !matrix_layout(a)->transposed &&
         matrix_layout(b)->transposed;
}

void matmul_thin(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate) {
  if (a.dtype() == f32) return run<float, float>(a, b, bias, out, accumulate);
  out.dtype() == f32 ? run<bfloat16, float>(a, b, bias, out, accumulate)
                     : run<bfloat16, bfloat16>(a, b, bias, out, accumulate);
}

}  // namespace tessera::kernels::cpu
