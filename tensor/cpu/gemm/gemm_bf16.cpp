// bf16 products with f32 sums. Each thread computes a block of c: it packs b in blocks of columns that fit
// its second-level cache, and multiplies all rows of a by each. a is read in place, unless it is transposed
// (in a weight's gradient): then it is packed too, in ranges of k whose sums are added up in c.
#include "tensor/cpu/gemm/gemm_bf16.h"

#include <algorithm>
#include <type_traits>

#include "tensor/cpu/gemm/gemm_bf16_kernels.h"
#include "tensor/cpu/gemm/product_blocks.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/scratch.h"

namespace tessera::kernels::cpu {
namespace {

// The fewest multiply-adds for which a second thread is worth its start.
constexpr int64_t grain = 1 << 18;
// The size of a packed block of b, which leaves space for a's rows in a second-level cache of 1 MiB.
constexpr int64_t block_bytes = 400 << 10;
// The longest range of k where c is f32 and holds the sums of several ranges.
constexpr int64_t max_k_range = 2048;
constexpr int64_t tile_columns = 3 * panel_width;  // columns of one tile

/// The number of columns, a multiple of `tile_columns`, whose packed panels fill `block_bytes`.
int64_t block_columns(int64_t k) {
  return std::max(block_bytes / (4 * PairPanels::stride_for(k) / panel_width) / tile_columns * tile_columns,
                  tile_columns);
}

/// The product over one range of k. a is packed when it is transposed.
template <class C>
void multiply_k_range(const Gemm<bfloat16, C>& gemm, const float* bias) {
  const int64_t width = std::min(block_columns(gemm.k), gemm.n);
  const Scratch<uint32_t> packed_b(PairPanels::size_for(gemm.k, width));
  const Scratch<uint32_t> packed_a(gemm.a_transposed ? PairPanels::size_for(gemm.k, gemm.m) : 0);
  const PairPanels panels_a{packed_a.get(), PairPanels::stride_for(gemm.k)};
  const PairPanels panels_b{packed_b.get(), PairPanels::stride_for(gemm.k)};
  // A transposed a (m, k) is stored as a (k, m) matrix.
  if (gemm.a_transposed) pack_pairs(gemm.a, gemm.lda, false, gemm.k, gemm.m, panels_a);
  for (int64_t j = 0; j < gemm.n; j += width) {
    const int64_t columns = std::min(width, gemm.n - j);
    pack_pairs(gemm.b_at(0, j), gemm.ldb, gemm.b_transposed, gemm.k, columns, panels_b);
    const auto target = [&](int64_t row) {
      return PairTarget{.c = gemm.c + row * gemm.ldc + j,
                        .leading = gemm.ldc,
                        .is_f32 = std::is_same_v<C, float>,
                        .accumulate = gemm.accumulate,
                        .bias = bias ? bias + j : nullptr};
    };
    if (!gemm.a_transposed) {
      multiply_pairs(gemm.m, columns, gemm.k, {gemm.a, gemm.lda, 2}, panels_b, target(0));
      continue;
    }
    for (int64_t i = 0; i < gemm.m; i += panel_width) {
      const auto* panel =
          reinterpret_cast<const bfloat16*>(panels_a.data + i / panel_width * panels_a.stride);
      multiply_pairs(std::min(panel_width, gemm.m - i), columns, gemm.k, {panel, 2, 2 * panel_width},
                     panels_b, target(i));
    }
  }
}

/// Each thread packs its columns of b, and its rows of a where a is stored transposed.
template <class C>
ThreadCut choose_cut(const Gemm<bfloat16, C>& gemm, int64_t parts) {
  return fastest_cut(gemm.m, gemm.n, parts, {tile_rows, panel_width, gemm.a_transposed ? 32 : 8, 32});
}

template <class C>
void run(const Tensor& a, const Tensor& b, const float* bias, const Tensor& out, bool accumulate) {
  for_each_block(product_batch<bfloat16, C>(a, b, out, accumulate), grain, &choose_cut<C>,
                 [&](const Gemm<bfloat16, C>& block, int64_t column) {
                   gemm_bf16(block, bias ? bias + column : nullptr);
                 });
}

}  // namespace

template <class C>
void gemm_bf16(const Gemm<bfloat16, C>& gemm, const float* bias) {
  // A bf16 c takes the sum over all of k at once, so that it is rounded once.
  const int64_t step = std::is_same_v<C, float> ? max_k_range : gemm.k;
  for (int64_t p = 0; p < gemm.k; p += step) {
    Gemm<bfloat16, C> range = gemm;
    range.k = std::min(step, gemm.k - p);
    range.a = gemm.a_at(0, p);
    range.b = gemm.b_at(p, 0);
    range.accumulate = gemm.accumulate || p > 0;
    multiply_k_range(range, p == 0 ? bias : nullptr);
  }
}

template void gemm_bf16(const Gemm<bfloat16>&, const float*);
template void gemm_bf16(const Gemm<bfloat16, float>&, const float*);

void matmul_bf16(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate) {
  const Scratch<float> wide_bias(bias.defined() ? bias.numel() : 0);
  if (bias.defined()) widen_contiguous(bias.data<bfloat16>(), bias.numel(), wide_bias.get());
  const float* const added = bias.defined() ? wide_bias.get() : nullptr;
  if (out.dtype() == f32)
    run<float>(a, b, added, out, accumulate);
  else
    run<bfloat16>(a, b, added, out, accumulate);
}

}  // namespace tessera::kernels::cpu
