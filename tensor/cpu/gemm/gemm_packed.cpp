#include "tensor/cpu/gemm/gemm_packed.h"

#include <algorithm>

#include "tensor/cpu/gemm/packed_product.h"
#include "tensor/cpu/gemm/product_blocks.h"
#include "tensor/cpu/loops/streamed_result.h"

namespace tessera::kernels::cpu {
namespace {

// The fewest multiply-adds for which a second thread is worth its start.
constexpr int64_t grain = 1 << 17;
// The longest range of k: eight rows of a take a third of a first-level cache of 48 KiB.
constexpr int64_t longest_range = 512;
// The packed block of b: 384 KiB of a second-level cache.
constexpr int64_t block_elements = 96 * 1024;
// The packed block of a stored transposed, which all blocks of b are multiplied with: 2 MiB.
constexpr int64_t row_block_elements = 512 * 1024;
// Columns of the largest tile.
constexpr int64_t tile_columns = 3 * packed_columns;
// Rows of the largest tile.
constexpr int64_t tile_rows = 8;
// The time to read an operand's element from another core's cache or to pack it, in multiply-adds.
constexpr int64_t operand_work = 16;

int64_t rounded_up(int64_t x, int64_t step) {
  return (x + step - 1) / step * step;
}

/// An extent in equal blocks of at most `largest`, which are multiples of `step` but for the last.
int64_t equal_blocks(int64_t extent, int64_t largest, int64_t step) {
  const int64_t blocks = (extent + largest - 1) / largest;
  return rounded_up((extent + blocks - 1) / blocks, step);
}

/// The length of the ranges of k; their sums are added in c, a function of k alone.
int64_t range_of(int64_t k) {
  return equal_blocks(k, longest_range, 8);
}

int64_t block_columns(int64_t depth, int64_t n) {
  return equal_blocks(n, std::max(block_elements / depth / tile_columns * tile_columns, tile_columns),
                      tile_columns);
}

/// The distance between panels of `depth` rows: an odd number of lines, so that panels begin in different
/// sets of a cache.
int64_t panel_stride(int64_t depth) {
  return (depth | 1) * packed_columns;
}
int64_t panels_for(int64_t n) {
  return (n + packed_columns - 1) / packed_columns;
}

/// The product over one range of k; its sums are added to those of the ranges before.
struct Range {
  int64_t first, depth;
  bool accumulate;
  const float* bias;
};

template <class Body>
void for_each_range(int64_t k, bool accumulate, const float* bias, const Body& body) {
  const int64_t step = range_of(k);
  for (int64_t p = 0; p < k; p += step)
    body(Range{p, std::min(step, k - p), accumulate || p > 0, p + step >= k ? bias : nullptr});
}

/// The first operand of one range as `PackedProduct` reads it.
struct Rows {
  const float* data;
  int64_t strip, row, step;
};

/// Rows i .. i + count of a in place, or, where a is stored transposed, packed into `memory`.
Rows rows_of(const Gemm<float>& g, const Range& range, int64_t i, int64_t count, float* memory) {
  const int64_t height = TESSERA_PER_ISA(packed_rows)();
  if (!g.a_transposed) return {g.a_at(i, range.first), height * g.lda, g.lda, 1};
  const int64_t strip = (range.depth | 1) * height;
  TESSERA_PER_ISA(pack_rows_f32)(g.a_at(i, range.first), g.lda, count, range.depth, memory, strip);
  return {memory, strip, 1, height};
}

ThreadCut choose_cut(const Gemm<float>& g, int64_t parts) {
  return fastest_cut(g.m, g.n, parts, {tile_rows, packed_columns, operand_work, operand_work});
}

/// Whether a c of one range is written past the caches: where `threads` write equal parts of it, and panels
/// begin on lines. Sums of several ranges are in a cache when the last one is added.
bool streams(const ProductBatch<float, float>& batch, int64_t threads) {
  const Gemm<float>& g = batch.first;
  const bool on_lines = reinterpret_cast<uintptr_t>(g.c) % 64 == 0 && g.ldc % packed_columns == 0;
  return batch.count == 1 && !g.accumulate && g.k <= longest_range && on_lines &&
         4 * g.m * g.n >= streamed_bytes * threads;
}

}  // namespace

void gemm_packed_f32(const Gemm<float>& g, const float* bias, bool streams) {
  const auto multiply = TESSERA_PER_ISA(packed_product_f32);
  const int64_t depth = range_of(g.k), width = block_columns(depth, g.n), panel = panel_stride(depth);
  const int64_t height = g.a_transposed ? std::min(g.m, rounded_up(row_block_elements / depth, 48)) : g.m;
  const Scratch<float> panels(panels_for(std::min(width, g.n)) * panel);
  const Scratch<float> strips(g.a_transposed ? rounded_up(height, 48) * (depth | 1) : 0);
  for_each_range(g.k, g.accumulate, bias, [&](const Range& range) {
    for (int64_t i = 0; i < g.m; i += height) {
      const int64_t rows = std::min(height, g.m - i);
      const Rows a = rows_of(g, range, i, rows, strips.get());
      for (int64_t j = 0; j < g.n; j += width) {
        const int64_t columns = std::min(width, g.n - j);
        TESSERA_PER_ISA(pack_panels_f32)
        (g.b_at(range.first, j), g.ldb, g.b_transposed, range.depth, columns, panels.get(), panel);
        multiply({.m = rows,
                  .n = columns,
                  .k = range.depth,
                  .a = a.data,
                  .strip = a.strip,
                  .row = a.row,
                  .step = a.step,
                  .panels = panels.get(),
                  .panel = panel,
                  .c = g.c + i * g.ldc + j,
                  .ldc = g.ldc,
                  .accumulate = range.accumulate,
                  .bias = range.bias ? range.bias + j : nullptr,
                  .streams = streams});
      }
    }
  });
  if (streams) TESSERA_PER_ISA(finish_streaming)();
}

void matmul_packed_f32(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                       bool accumulate) {
  const float* const added = bias.defined() ? bias.data<float>() : nullptr;
  const ProductBatch<float, float> batch = product_batch<float, float>(a, b, out, accumulate);
  const bool streamed = streams(batch, num_threads());
  for_each_block(batch, grain, &choose_cut, [&](const Gemm<float>& block, int64_t column) {
    gemm_packed_f32(block, added ? added + column : nullptr, streamed);
  });
}

PackedOperand::PackedOperand(int64_t k, int64_t n) : panels_(panels_for(n) * panel_stride(k)) {}

void PackedOperand::pack(const float* b, int64_t leading, bool transposed, int64_t k, int64_t n) {
  n_ = n;
  panel_ = panel_stride(k);
  TESSERA_PER_ISA(pack_panels_f32)(b, leading, transposed, k, n, panels_.get(), panel_);
}

void PackedOperand::pack_in_parallel(const float* b, int64_t leading, bool transposed, int64_t k, int64_t n) {
  n_ = n;
  panel_ = panel_stride(k);
  const auto pack = TESSERA_PER_ISA(pack_panels_f32);
  parallel_for(panels_for(n), 1 + (1 << 13) / (packed_columns * k), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * packed_columns, columns = std::min(end * packed_columns, n) - first;
    pack(b + first * (transposed ? leading : 1), leading, transposed, k, columns,
         panels_.get() + begin * panel_, panel_);
  });
}

void PackedOperand::multiply(int64_t m, const float* a, int64_t lda, int64_t first, int64_t depth, float* c,
                             int64_t ldc, bool accumulate, const float* bias) const {
  const int64_t width = block_columns(range_of(depth), n_), rows = TESSERA_PER_ISA(packed_rows)();
  for_each_range(depth, accumulate, bias, [&](const Range& range) {
    for (int64_t j = 0; j < n_; j += width) TESSERA_PER_ISA(packed_product_f32)
    ({.m = m,
      .n = std::min(width, n_ - j),
      .k = range.depth,
      .a = a + range.first,
      .strip = rows * lda,
      .row = lda,
      .step = 1,
      .panels = panels_.get() + j / packed_columns * panel_ + (first + range.first) * packed_columns,
      .panel = panel_,
      .c = c + j,
      .ldc = ldc,
      .accumulate = range.accumulate,
      .bias = range.bias ? range.bias + j : nullptr});
  });
}

}  // namespace tessera::kernels::cpu
