#include "tensor/cpu/gemm/thin/gemm_thin.h"

#include <algorithm>

#include "tensor/cpu/gemm/product_choice.h"
#include "tensor/cpu/gemm/sharing/product_blocks.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/scratch.h"

namespace tessera::kernels::cpu {
namespace {

/// sums (m, columns) plus bias and c, rounded once, to c.
template <class T, class C>
void finish(const Gemm<T, C>& block, const T* bias, float* sums) {
  float row[thin_columns_at_once];
  for (int64_t i = 0; i < block.m; ++i, sums += thin_columns_at_once) {
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
  thin_columns(gemm.m, gemm.n, gemm.k, a.get(), gemm.b, gemm.ldb,
               [&](int64_t j, int64_t columns, float* sums) {
                 finish(gemm.tile(0, gemm.m, j, columns), bias ? bias + j : nullptr, sums);
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
