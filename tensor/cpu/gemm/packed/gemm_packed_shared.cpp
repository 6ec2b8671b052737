// f32 products by all threads, with our kernels. The bits of c do not depend on how it is shared, so threads
// take items as they get to them (../sharing/shared_work.h).
//
// A first operand in place (y = x W^T, dx = dy W): each thread has a part of c (../sharing/thread_cut.h), in
// columns that it packs as it gets to them and bands of rows; a thread that takes bands of another's part
// packs their columns again. A first operand that is stored transposed (dW = dy^T x) is packed too, and each
// of its rows is needed by all columns: all threads pack both operands, then share the blocks of a grid.
#include <algorithm>
#include <memory>

#include "tensor/cpu/gemm/packed/gemm_packed.h"
#include "tensor/cpu/gemm/packed/packed_ranges.h"
#include "tensor/cpu/gemm/product_squares.h"
#include "tensor/cpu/gemm/sharing/part_items.h"
#include "tensor/cpu/gemm/sharing/product_blocks.h"
#include "tensor/cpu/gemm/sharing/shared_path.h"
#include "tensor/cpu/loops/streamed_result.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain = packed_path.grain;
// What a thread packs of b at a time: 1 MiB, but at least four tiles of columns, and of longer ones a range
// (as `gemm_packed_f32` does).
constexpr int64_t most_packed_elements = 256 * 1024, most_packed_k = 4096;
// The most rows plus columns of a band: one packed range of both operands takes 16 MiB.
constexpr int64_t most_packed_extent = 8192;
// Items of a thread's part, so that the last ones of all end close together, and the rows of one: enough to
// pay for the columns that another thread packs again, few enough for c to stay in a second-level cache.
constexpr int64_t part_items = 8, least_band = 48, most_band = 256;
// Edges of the blocks of a grid: whole strips and whole tiles.
constexpr int64_t grid_unit = 48, most_grid_rows = 192;

ThreadCut choose_cut(const Gemm<float>& g, int64_t parts) {
  static_assert(packed_path.costs.row_step == packed_tile_rows &&
                packed_path.costs.column_step == packed_columns);
  return fastest_cut(g.m, g.n, parts, packed_path.costs);
}

/// Whether a c of one range is written past the caches: where `threads` write equal parts of it, and panels
/// begin on lines. Sums of several ranges are in a cache when the last one is added.
bool streams(const Gemm<float>& g, int64_t threads) {
  const bool on_lines = reinterpret_cast<uintptr_t>(g.c) % 64 == 0 && g.ldc % packed_columns == 0;
  return !g.accumulate && g.k <= longest_packed_range && on_lines &&
         4 * g.m * g.n >= streamed_bytes * threads;
}

/// About `part_items` items of a block.
PartItems::Size item_size(const ProductBlock& block, int64_t k) {
  const int64_t most =
      std::max(most_packed_elements / k / packed_tile_columns, int64_t{4}) * packed_tile_columns;
  const int64_t columns = std::min(packed_block_columns(packed_range(k), block.columns),
                                   equal_blocks(block.columns, most, packed_tile_columns));
  const int64_t across = (block.columns + columns - 1) / columns, bands = (part_items + across - 1) / across;
  return {columns,
          equal_blocks(block.rows, std::clamp(block.rows / bands, least_band, most_band), packed_tile_rows)};
}

/// c = a b of an a in place; `kept`: null, or the panels of all of b.
class ProductInPlace {
 public:
  ProductInPlace(const Gemm<float>& gemm, const float* bias, int64_t threads, const float* kept)
      : gemm_(gemm),
        bias_(bias),
        kept_(kept),
        streams_(streams(gemm, threads)),
        items_(gemm.m, gemm.n, threads == 1 ? ThreadCut{} : choose_cut(gemm, threads),
               [&](const ProductBlock& block) { return item_size(block, gemm.k); }) {}

  void run() const {
    items_.for_each([&] {
      return [worker = std::make_unique<Worker>(*this)](const ProductBlock& item) { worker->multiply(item); };
    });
  }

 private:
  /// A thread with the columns that it packed last.
  class Worker {
   public:
    explicit Worker(const ProductInPlace& product)
        : product_(product), packed_(product.gemm_.k, product.kept_ ? 0 : product.items_.widest()) {}
    ~Worker() {
      if (product_.streams_) TESSERA_PER_ISA(finish_streaming)();
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    void multiply(const ProductBlock& item) {
      const Gemm<float>& g = product_.gemm_;
      if (item.column != column_ || item.columns != columns_) {
        if (product_.kept_)
          packed_.take_panels(product_.kept_, g.k, item.column, item.columns);
        else if (!g.b_transposed && reads_panels_in_place(g.k, g.ldb, item.columns))
          packed_.take(g.b_at(0, item.column), g.ldb, item.columns);
        else
          packed_.pack(g.b_at(0, item.column), g.ldb, g.b_transposed, g.k, item.columns);
        column_ = item.column;
        columns_ = item.columns;
      }
      packed_.multiply({.c = g.c + item.row * g.ldc + item.column,
                        .leading = g.ldc,
                        .rows = item.rows,
                        .accumulate = g.accumulate,
                        .bias = product_.bias_ ? product_.bias_ + item.column : nullptr,
                        .streams = product_.streams_},
                       g.a_at(item.row, 0), g.lda, 0, g.k);
    }

   private:
    const ProductInPlace& product_;
    PackedOperand packed_;
    int64_t column_ = -1, columns_ = 0;
  };

  const Gemm<float>& gemm_;
  const float *bias_, *kept_;
  bool streams_;
  PartItems items_;
};

/// c = a b of an a that is stored transposed.
class ProductOfStrips {
 public:
  ProductOfStrips(const Gemm<float>& gemm, const float* bias, int64_t threads)
      : gemm_(gemm),
        bias_(bias),
        streams_(streams(gemm, threads)),
        grid_(packed_grid(gemm.m, gemm.n, gemm.k, threads)),
        group_(PackedStrips::group_of(gemm.k, gemm.m + gemm.n)),
        panel_(packed_panel_stride(group_)),
        rows_(gemm.m, group_),
        panels_(packed_panels(gemm.n) * panel_) {}

  /// `squares` get those of c's values.
  void run(const F32Squares& squares) const {
    for (int64_t first = 0; first < gemm_.k; first += group_) {
      const int64_t length = std::min(group_, gemm_.k - first);
      pack(first, length);
      SharedBlocks(grid_).for_each([&](int64_t i, int64_t j) {
        block(i * grid_.height, j * grid_.width, first, length, squares);
        if (streams_) TESSERA_PER_ISA(finish_streaming)();
      });
    }
  }

 private:
  /// Packs rows first .. first + length of k of both operands.
  void pack(int64_t first, int64_t length) const {
    const int64_t grain_rows = 1 + (1 << 13) / (gemm_.m + gemm_.n);
    constexpr int64_t step = 8;  // rows that are packed side by side
    parallel_for((length + step - 1) / step, (grain_rows + step - 1) / step, [&](int64_t begin, int64_t end) {
      const int64_t p = begin * step, count = std::min(end * step, length) - p;
      rows_.pack(gemm_.a_at(0, first + p), gemm_.lda, p, count);
      TESSERA_PER_ISA(pack_panels_f32)
      (gemm_.b_at(first + p, 0), gemm_.ldb, gemm_.b_transposed, count, gemm_.n,
       panels_.get() + p * packed_columns, panel_);
    });
  }

  /// A block of c from (i, j) on, over the ranges of a group.
  void block(int64_t i, int64_t j, int64_t first, int64_t length, const F32Squares& squares) const {
    const int64_t rows = std::min(grid_.height, gemm_.m - i), columns = std::min(grid_.width, gemm_.n - j),
                  step = packed_range(gemm_.k);
    for (int64_t p = 0; p < length; p += step) {
      const bool is_last = first + p + step >= gemm_.k;
      rows_.multiply(i, p,
                     {.m = rows,
                      .n = columns,
                      .k = std::min(step, length - p),
                      .panels = panels_.get() + j / packed_columns * panel_ + p * packed_columns,
                      .panel = panel_,
                      .c = gemm_.c + i * gemm_.ldc + j,
                      .ldc = gemm_.ldc,
                      .accumulate = gemm_.accumulate || first + p > 0,
                      .bias = is_last && bias_ ? bias_ + j : nullptr,
                      .streams = streams_,
                      .squares = is_last ? squares.at(i, j) : F32Squares()});
    }
  }

  const Gemm<float>& gemm_;
  const float* bias_;
  bool streams_;
  SharedGrid grid_;
  int64_t group_, panel_;
  PackedStrips rows_;
  Scratch<float> panels_;
};

/// A product with a transposed first operand, in bands: `most_packed_extent` bounds the packed operands of
/// each.
void multiply_strips(const Gemm<float>& g, const float* bias, int64_t threads) {
  const int64_t width = equal_blocks(g.n, most_packed_extent / 2, grid_unit),
                height = equal_blocks(g.m, most_packed_extent - std::min(width, g.n), grid_unit);
  const auto run = [&](const F32Squares& squares) {
    for (int64_t i = 0; i < g.m; i += height)
      for (int64_t j = 0; j < g.n; j += width) {
        const Gemm<float> band = g.tile(i, std::min(height, g.m - i), j, std::min(width, g.n - j));
        ProductOfStrips(band, bias ? bias + j : nullptr, threads).run(squares.at(i, j));
      }
  };
  if (product_squares.wanted)
    product_squares.sum = packed_squares(g.m, g.n, run);
  else
    run({});
}

int64_t worthwhile_threads(int64_t m, int64_t n, int64_t k, int64_t threads) {
  return std::clamp<int64_t>(m * n * k / grain, 1, threads);
}

}  // namespace

SharedGrid packed_grid(int64_t m, int64_t n, int64_t k, int64_t threads) {
  return shared_grid(m, n, worthwhile_threads(m, n, k, threads), grid_unit, most_grid_rows,
                     packed_block_columns(packed_range(k), n));
}

void multiply_packed_f32(const Gemm<float>& g, const float* bias, const float* kept) {
  const int64_t threads = worthwhile_threads(g.m, g.n, g.k, num_threads());
  if (g.a_transposed) return multiply_strips(g, bias, threads);
  if (g.k <= most_packed_k) return ProductInPlace(g, bias, threads, kept).run();
  for_each_block(
      {1, g.m, g.n, g.k}, grain, [&](int64_t parts) { return choose_cut(g, parts); },
      [&](int64_t, const ProductBlock& block) {
        gemm_packed_f32(g.tile(block.row, block.rows, block.column, block.columns),
                        bias ? bias + block.column : nullptr,
                        kept ? kept + block.column / packed_columns * packed_panel_stride(g.k) : nullptr);
      });
}

void matmul_packed_f32(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                       bool accumulate) {
  const float* const added = bias.defined() ? bias.data<float>() : nullptr;
  const ProductBatch<float, float> batch = product_batch<float, float>(a, b, out, accumulate);
  const Gemm<float>& g = batch.first;
  if (batch.count == 1)
    return multiply_packed_f32(
        g, added, g.a_transposed ? nullptr : kept_panels_f32(b, g.b, g.ldb, g.b_transposed, g.k, g.n, g.m));
  for_each_block(batch, grain, &choose_cut, [&](const Gemm<float>& block, int64_t column) {
    gemm_packed_f32(block, added ? added + column : nullptr);
  });
}

}  // namespace tessera::kernels::cpu
