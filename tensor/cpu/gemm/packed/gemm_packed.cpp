#include "tensor/cpu/gemm/packed/gemm_packed.h"

#include <algorithm>

#include "tensor/cpu/gemm/kept_operands.h"
#include "tensor/cpu/gemm/packed/packed_ranges.h"
#include "tensor/cpu/loops/streamed_result.h"

namespace tessera::kernels::cpu {
namespace {

// The packed block of a stored transposed, which all blocks of b are multiplied with: 2 MiB.
constexpr int64_t row_block_elements = 512 * 1024;
// The longest rows of a matrix that is read in place column by column: a page holds two of them.
constexpr int64_t most_leading_in_place = 512;
// The most elements of a group of packed ranges: 16 MiB.
constexpr int64_t most_group_elements = 4 << 20;

/// The first operand of one range as `PackedProduct` reads it.
struct Rows {
  const float* data;
  int64_t strip, row, step;
};

/// Rows i .. i + count of a in place, or, where a is stored transposed, packed into `memory`.
Rows rows_of(const Gemm<float>& g, const PackedRange& range, int64_t i, int64_t count, float* memory) {
  const int64_t height = TESSERA_PER_ISA(packed_rows)();
  if (!g.a_transposed) return {g.a_at(i, range.first), height * g.lda, g.lda, 1};
  const int64_t strip = (range.depth | 1) * height;
  TESSERA_PER_ISA(pack_rows_f32)(g.a_at(i, range.first), g.lda, count, range.depth, memory, strip);
  return {memory, strip, 1, height};
}

/// All of a second operand, by all threads.
void pack_in_parallel_f32(const float* b, int64_t leading, bool transposed, int64_t k, int64_t n,
                          float* panels) {
  const auto pack = TESSERA_PER_ISA(pack_panels_f32);
  const int64_t panel = packed_panel_stride(k);
  parallel_for(packed_panels(n), 1 + (1 << 13) / (packed_columns * k), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * packed_columns, columns = std::min(end * packed_columns, n) - first;
    pack(b + first * (transposed ? leading : 1), leading, transposed, k, columns, panels + begin * panel,
         panel);
  });
}

}  // namespace

bool reads_panels_in_place(int64_t k, int64_t leading, int64_t columns) {
  return leading <= most_leading_in_place && k * leading <= packed_block_elements &&
         columns % packed_columns == 0;
}

const float* kept_panels_f32(const Tensor& values, const float* b, int64_t leading, bool transposed,
                             int64_t k, int64_t n, int64_t rows) {
  if (kept_operands == nullptr || (!transposed && reads_panels_in_place(k, leading, n))) return nullptr;
  return static_cast<const float*>(kept_operands->find_or_pack(
      values, {b, k, n, leading, transposed, PackedForm::f32_panels}, rows,
      4 * packed_panels(n) * packed_panel_stride(k),
      [&](void* to) { pack_in_parallel_f32(b, leading, transposed, k, n, static_cast<float*>(to)); }));
}

void gemm_packed_f32(const Gemm<float>& g, const float* bias, const float* kept) {
  const auto multiply = TESSERA_PER_ISA(packed_product_f32);
  const int64_t depth = packed_range(g.k), width = packed_block_columns(depth, g.n),
                panel = packed_panel_stride(kept ? g.k : depth);
  const int64_t height = g.a_transposed ? std::min(g.m, rounded_up(row_block_elements / depth, 48)) : g.m;
  const Scratch<float> own(kept ? 0 : packed_panels(std::min(width, g.n)) * panel);
  const Scratch<float> strips(g.a_transposed ? rounded_up(height, 48) * (depth | 1) : 0);
  for_each_packed_range(g.k, g.accumulate, bias, [&](const PackedRange& range) {
    for (int64_t i = 0; i < g.m; i += height) {
      const int64_t rows = std::min(height, g.m - i);
      const Rows a = rows_of(g, range, i, rows, strips.get());
      for (int64_t j = 0; j < g.n; j += width) {
        const int64_t columns = std::min(width, g.n - j);
        if (!kept) TESSERA_PER_ISA(pack_panels_f32)
        (g.b_at(range.first, j), g.ldb, g.b_transposed, range.depth, columns, own.get(), panel);
        multiply(
            {.m = rows,
             .n = columns,
             .k = range.depth,
             .a = a.data,
             .strip = a.strip,
             .row = a.row,
             .step = a.step,
             .panels = kept ? kept + j / packed_columns * panel + range.first * packed_columns : own.get(),
             .panel = panel,
             .c = g.c + i * g.ldc + j,
             .ldc = g.ldc,
             .accumulate = range.accumulate,
             .bias = range.bias ? range.bias + j : nullptr});
      }
    }
  });
}

PackedOperand::PackedOperand(int64_t k, int64_t n) : panels_(packed_panels(n) * packed_panel_stride(k)) {}

void PackedOperand::pack(const float* b, int64_t leading, bool transposed, int64_t k, int64_t n) {
  data_ = panels_.get();
  n_ = n;
  panel_ = packed_panel_stride(k);
  row_ = packed_columns;
  TESSERA_PER_ISA(pack_panels_f32)(b, leading, transposed, k, n, panels_.get(), panel_);
}

void PackedOperand::pack_in_parallel(const float* b, int64_t leading, bool transposed, int64_t k, int64_t n) {
  data_ = panels_.get();
  n_ = n;
  panel_ = packed_panel_stride(k);
  row_ = packed_columns;
  pack_in_parallel_f32(b, leading, transposed, k, n, panels_.get());
}

void PackedOperand::take_panels(const float* panels, int64_t k, int64_t column, int64_t n) {
  panel_ = packed_panel_stride(k);
  data_ = panels + column / packed_columns * panel_;
  n_ = n;
  row_ = packed_columns;
}

void PackedOperand::take(const float* b, int64_t leading, int64_t n) {
  data_ = b;
  n_ = n;
  panel_ = packed_columns;
  row_ = leading;
}

void PackedOperand::multiply(const PackedTarget& to, const float* a, int64_t lda, int64_t first,
                             int64_t depth) const {
  const int64_t width = packed_block_columns(packed_range(depth), n_), rows = TESSERA_PER_ISA(packed_rows)();
  for_each_packed_range(depth, to.accumulate, to.bias, [&](const PackedRange& range) {
    for (int64_t j = 0; j < n_; j += width) TESSERA_PER_ISA(packed_product_f32)
    ({.m = to.rows,
      .n = std::min(width, n_ - j),
      .k = range.depth,
      .a = a + range.first,
      .strip = rows * lda,
      .row = lda,
      .step = 1,
      .panels = data_ + j / packed_columns * panel_ + (first + range.first) * row_,
      .panel = panel_,
      .panel_row = row_,
      .c = to.c + j,
      .ldc = to.leading,
      .accumulate = range.accumulate,
      .bias = range.bias ? range.bias + j : nullptr,
      .streams = to.streams,
      .beside = to.beside ? to.beside + j : nullptr,
      .beside_leading = to.beside_leading});
  });
}

int64_t PackedStrips::group_of(int64_t k, int64_t elements) {
  const int64_t range = packed_range(k);
  return std::min(std::max(most_group_elements / elements / range, int64_t{1}) * range, k);
}

PackedStrips::PackedStrips(int64_t m, int64_t group)
    : m_(m),
      height_(TESSERA_PER_ISA(packed_rows)()),
      strip_((group | 1) * height_),
      strips_((m + height_ - 1) / height_ * strip_) {}

void PackedStrips::pack(const float* from, int64_t leading, int64_t p, int64_t count) const {
  TESSERA_PER_ISA(pack_rows_f32)(from, leading, m_, count, strips_.get() + p * height_, strip_);
}

void PackedStrips::multiply(int64_t i, int64_t p, PackedProduct product) const {
  product.a = strips_.get() + i / height_ * strip_ + p * height_;
  product.strip = strip_;
  product.row = 1;
  product.step = height_;
  TESSERA_PER_ISA(packed_product_f32)(product);
}

}  // namespace tessera::kernels::cpu
