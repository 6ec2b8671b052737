#include "tensor/cpu/gemm/gemm_narrow.h"

#include <algorithm>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/scratch.h"

namespace tessera::kernels::cpu {
namespace {

// With tiles of 256 x 256 an operand's element is widened once per 256 multiply-adds. The three tiles take
// 0.75 MiB, which stays in a second-level cache.
constexpr int64_t tile = 256;

/// Widens a rows x columns block, with the extents as stored (for a transposed operand they are exchanged).
template <class T>
void widen_block(const T* from, int64_t leading, int64_t rows, int64_t columns, float* to) {
  for (int64_t i = 0; i < rows; ++i) widen_contiguous(from + i * leading, columns, to + i * columns);
}

}  // namespace

template <class T, class C>
void gemm_narrow(const Gemm<T, C>& gemm, void (*gemm_f32)(const Gemm<float>&)) {
  const Scratch<float> scratch(3 * tile * tile);
  float *a = scratch.get(), *b = a + tile * tile, *c = b + tile * tile;
  for (int64_t i = 0; i < gemm.m; i += tile)
    for (int64_t j = 0; j < gemm.n; j += tile) {
      const int64_t rows = std::min(tile, gemm.m - i), columns = std::min(tile, gemm.n - j);
      if (gemm.accumulate) widen_block(gemm.c + i * gemm.ldc + j, gemm.ldc, rows, columns, c);
      for (int64_t p = 0; p < gemm.k; p += tile) {
        const int64_t depth = std::min(tile, gemm.k - p);
        gemm.a_transposed ? widen_block(gemm.a_at(i, p), gemm.lda, depth, rows, a)
                          : widen_block(gemm.a_at(i, p), gemm.lda, rows, depth, a);
        gemm.b_transposed ? widen_block(gemm.b_at(p, j), gemm.ldb, columns, depth, b)
                          : widen_block(gemm.b_at(p, j), gemm.ldb, depth, columns, b);
        gemm_f32({.m = rows,
                  .n = columns,
                  .k = depth,
                  .a = a,
                  .lda = gemm.a_transposed ? rows : depth,
                  .a_transposed = gemm.a_transposed,
                  .b = b,
                  .ldb = gemm.b_transposed ? depth : columns,
                  .b_transposed = gemm.b_transposed,
                  .c = c,
                  .ldc = columns,
                  .accumulate = gemm.accumulate || p > 0});
      }
      for (int64_t r = 0; r < rows; ++r)
        narrow_contiguous(c + r * columns, columns, gemm.c + (i + r) * gemm.ldc + j);
    }
}

template void gemm_narrow(const Gemm<bfloat16>&, void (*)(const Gemm<float>&));
template void gemm_narrow(const Gemm<bfloat16, float>&, void (*)(const Gemm<float>&));
template void gemm_narrow(const Gemm<float16>&, void (*)(const Gemm<float>&));
template void gemm_narrow(const Gemm<float16, float>&, void (*)(const Gemm<float>&));

}  // namespace tessera::kernels::cpu
