// bf16 products with f32 sums. On vectors each thread computes a block of c: it packs b in blocks of columns
// that fit its second-level cache, and multiplies all rows of a by each. a is read in place, unless it is
// transposed (in a weight's gradient): then it is packed too, in ranges of k, and their sums are added up in
// c. On tiles threads share the blocks of c: of a weight's gradient they pack both operands together, else
// each packs the columns of its part.
#include "tensor/cpu/gemm/pairs/gemm_bf16.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>

#include "tensor/cpu/gemm/kept_operands.h"
#include "tensor/cpu/gemm/pairs/gemm_bf16_kernels.h"
#include "tensor/cpu/gemm/product_squares.h"
#include "tensor/cpu/gemm/sharing/part_items.h"
#include "tensor/cpu/gemm/sharing/product_blocks.h"
#include "tensor/cpu/gemm/sharing/shared_blocks.h"
#include "tensor/cpu/gemm/sharing/shared_path.h"
#include "tensor/cpu/gemm/tiles/tile_product.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/loops/streamed_result.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain = pair_path.grain, tile_grain = tile_path.grain;
// The size of a packed block of b, which leaves space for a's rows in a second-level cache of 1 MiB.
constexpr int64_t block_bytes = 400 << 10;
// On tiles, which come with second-level caches of 2 MiB: beside it are a's rows and sums.
constexpr int64_t tile_block_bytes = 768 << 10;
// The longest range of k where c is f32 and holds the sums of several ranges: read in place, and packed. A
// panel of a packed range takes 16 KiB of the first-level cache beside the rows of b that pass through it.
constexpr int64_t max_k_range = 2048, max_packed_k_range = 512;
constexpr int64_t tile_columns = 3 * panel_width;  // columns of one tile

/// The columns of b that are multiplied at a time on tiles, of `n`: whole tiles, of which those of one range
/// of k fill about `tile_block_bytes`, in equal blocks.
int64_t tile_block_columns(int64_t k, int64_t n) {
  const int64_t most = tile_block_bytes / (2 * std::min(k, tile_k_range)), blocks = (n + most - 1) / most;
  return std::min(((n + blocks - 1) / blocks + 31) / 32 * 32, n);
}

/// The columns of b that a thread packs at a time, of `n`; on vectors their panels fill `block_bytes`.
int64_t block_columns(int64_t k, int64_t n) {
  if (multiplies_pairs_on_tiles()) return tile_block_columns(k, n);
  const int64_t column_bytes = 4 * PairPanels::stride_for(k) / panel_width;
  return std::min(std::max(block_bytes / column_bytes / tile_columns * tile_columns, tile_columns), n);
}

// Rows or columns that threads pack at a time: a multiple of the tiles' and the panels' 16.
constexpr int64_t unit = 32;
// The most bytes of packed rows, and of packed columns that threads share.
constexpr int64_t most_packed = 16 << 20;

// Of a first operand in place: what a thread packs at a time, items of its part, and rows of one. Packing an
// element takes the time of some hundred multiply-adds on tiles, of which a part of c has few for each.
constexpr int64_t most_private = 1 << 20, part_items = 8, least_band = 128, most_band = 512;
// Longer columns are packed by all threads together: 2 MiB bound what a thread packs alone.
constexpr int64_t most_private_k = 8192;
static_assert(tile_path.costs.row_step == unit && tile_path.costs.column_step == unit);

int64_t units(int64_t extent) {
  return (extent + unit - 1) / unit;
}

/// The rows or columns of `extent` that are packed together: `most_packed` bounds the memory of a product.
int64_t packed_together(int64_t extent, int64_t k) {
  return std::min(std::max(most_packed / (2 * k) / unit * unit, unit), units(extent) * unit);
}

int64_t worthwhile_threads(int64_t m, int64_t n, int64_t k, int64_t threads) {
  return std::clamp<int64_t>(m * n * k / tile_grain, 1, threads);
}

/// The blocks of a product on tiles.
SharedGrid grid_of(int64_t m, int64_t n, int64_t k, int64_t threads) {
  constexpr int64_t most_rows = 128;
  return shared_grid(m, n, threads, unit, most_rows, tile_block_columns(k, n));
}

/// A first operand (m, k) that is stored transposed, packed: in panels of 16 rows for vectors, in tiles for
/// tiles.
class PackedRows {
 public:
  /// Pairs of operands of at most (m, k).
  static int64_t size_for(int64_t k, int64_t m) {
    return multiplies_pairs_on_tiles() ? TileRows::size_for(k, m) / 2 : PairPanels::size_for(k, m);
  }
  PackedRows(uint32_t* memory, int64_t k) : memory_(memory), k_(k) {}

  /// Packs the transpose of a matrix (k, m), with rows `leading` apart.
  void pack(const bfloat16* from, int64_t leading, int64_t m) const {
    if (multiplies_pairs_on_tiles())
      pack_tiles(from, leading, k_, m, reinterpret_cast<bfloat16*>(memory_));
    else
      pack_pairs(from, leading, false, k_, m, {memory_, PairPanels::stride_for(k_)});
  }
  /// c (m, n) += these rows times `b`.
  void multiply(int64_t m, int64_t n, const PairPanels& b, PairTarget target, RowsAhead* ahead) const {
    if (multiplies_pairs_on_tiles())
      return multiply_tiles(m, n, k_, TileRows::packed(reinterpret_cast<const bfloat16*>(memory_), k_), b,
                            target);
    const int64_t step = panel_width * target.leading * (target.is_f32 ? 4 : 2);  // bytes
    const SquareSums squares = target.squares;
    for (int64_t i = 0; i < m; i += panel_width, target.c = static_cast<char*>(target.c) + step) {
      target.squares = squares.at(i, 0);
      const auto* panel =
          reinterpret_cast<const bfloat16*>(memory_ + i / panel_width * PairPanels::stride_for(k_));
      multiply_pairs(std::min(panel_width, m - i), n, k_, {panel, 2, 2 * panel_width}, b, target, ahead);
    }
  }

 private:
  uint32_t* memory_;
  int64_t k_;
};

/// Whether c is written past the caches, where `threads` write equal parts of it.
template <class C>
bool streams(const Gemm<bfloat16, C>& gemm, int64_t threads) {
  const bool on_lines = reinterpret_cast<uintptr_t>(gemm.c) % 64 == 0 && gemm.ldc % 32 == 0;
  return std::is_same_v<C, bfloat16> && !gemm.accumulate && on_lines &&
         2 * gemm.m * gemm.n >= streamed_bytes * threads;
}

template <class C>
PairTarget target_of(const Gemm<bfloat16, C>& gemm, const float* bias, int64_t column) {
  return {.c = gemm.c + column,
          .leading = gemm.ldc,
          .is_f32 = std::is_same_v<C, float>,
          .accumulate = gemm.accumulate,
          .bias = bias ? bias + column : nullptr,
          .streams = streams(gemm, 1)};
}

/// Part `p` .. `p` + `depth` of the sums over k.
template <class C>
Gemm<bfloat16, C> range_of(const Gemm<bfloat16, C>& gemm, int64_t p, int64_t depth) {
  Gemm<bfloat16, C> range = gemm;
  range.k = depth;
  range.a = gemm.a_at(0, p);
  range.b = gemm.b_at(p, 0);
  range.accumulate = gemm.accumulate || p > 0;
  return range;
}

/// Whether tiles multiply over all of k: they keep the sums of long ranges themselves.
template <class C>
bool multiplies_all_of_k(const Gemm<bfloat16, C>& gemm) {
  return multiplies_pairs_on_tiles() && !gemm.a_transposed && gemm.k <= most_private_k;
}

/// The longest range. A bf16 c takes the sum over all of k at once, so that it is rounded once.
template <class C>
int64_t longest_range(const Gemm<bfloat16, C>& gemm) {
  if (!std::is_same_v<C, float> || multiplies_all_of_k(gemm)) return gemm.k;
  const int64_t packed = multiplies_pairs_on_tiles() ? tile_k_range : max_packed_k_range;
  return std::min(gemm.k, gemm.a_transposed ? packed : max_k_range);
}

/// The part of packed panels from row `p`, an even one, and column `j`, the first of a panel, on.
PairPanels panels_at(const PairPanels& panels, int64_t p, int64_t j) {
  return {panels.data + j / panel_width * panels.stride + p / 2 * panel_width, panels.stride};
}

/// A b that is packed already: its panels from the block's first column on; else nothing.
using KeptPanels = std::optional<PairPanels>;

/// Adds the columns of b from j on that are packed together.
template <class C>
void add_columns(RowsAhead& ahead, const Gemm<bfloat16, C>& gemm, int64_t j, int64_t columns) {
  const int64_t rows = gemm.b_transposed ? columns : gemm.k, length = gemm.b_transposed ? gemm.k : columns;
  ahead.add(gemm.b_at(0, j), 2 * gemm.ldb, rows, 2 * length);
}

/// The product over one range of k in the calling thread. While it multiplies, it prefetches what is packed
/// next: further columns of b, or the operands of the range `next` (null: there is none).
template <class C>
void multiply_k_range(const Gemm<bfloat16, C>& gemm, const float* bias, const KeptPanels& kept,
                      SquareSums squares, const Gemm<bfloat16, C>* next) {
  const int64_t width = block_columns(gemm.k, gemm.n),
                height = gemm.a_transposed ? packed_together(gemm.m, gemm.k) : gemm.m;
  const Scratch<uint32_t> packed_b(kept ? 0 : PairPanels::size_for(gemm.k, width));
  const Scratch<uint32_t> packed_a(gemm.a_transposed ? PackedRows::size_for(gemm.k, height) : 0);
  const PackedRows rows(packed_a.get(), gemm.k);
  const PairPanels own{packed_b.get(), PairPanels::stride_for(gemm.k)};
  for (int64_t i = 0; i < gemm.m; i += height) {
    const Gemm<bfloat16, C> band = gemm.tile(i, std::min(height, gemm.m - i), 0, gemm.n);
    if (gemm.a_transposed) rows.pack(band.a, band.lda, band.m);
    for (int64_t j = 0; j < gemm.n; j += width) {
      const int64_t columns = std::min(width, gemm.n - j);
      if (!kept) pack_pairs(gemm.b_at(0, j), gemm.ldb, gemm.b_transposed, gemm.k, columns, own);
      const PairPanels panels = kept ? panels_at(*kept, 0, j) : own;
      PairTarget target = target_of(band, bias, j);
      target.squares = squares.at(i, j);
      RowsAhead ahead;
      if (j + width < gemm.n) {
        if (!kept) add_columns(ahead, gemm, j + width, std::min(width, gemm.n - j - width));
      } else if (next && i + height >= gemm.m) {
        if (next->a_transposed) ahead.add(next->a, 2 * next->lda, next->k, 2 * std::min(height, next->m));
        if (!kept) add_columns(ahead, *next, 0, std::min(width, next->n));
      }
      ahead.spread(ahead_turns(band.m, columns, gemm.k));
      RowsAhead* const lines = ahead.empty() ? nullptr : &ahead;
      if (gemm.a_transposed)
        rows.multiply(band.m, columns, panels, target, lines);
      else
        multiply_pairs(band.m, columns, gemm.k, {band.a, band.lda, 2}, panels, target, lines);
    }
  }
}

/// The product in the calling thread. `squares` get those of what is stored last.
template <class C>
void multiply_all_ranges(const Gemm<bfloat16, C>& gemm, const float* bias, const KeptPanels& kept,
                         SquareSums squares = {}) {
  const int64_t step = longest_range(gemm);
  const auto range_from = [&](int64_t p) { return range_of(gemm, p, std::min(step, gemm.k - p)); };
  for (int64_t p = 0; p < gemm.k; p += step) {
    const bool is_last = p + step >= gemm.k;
    const Gemm<bfloat16, C> range = range_from(p), next = is_last ? range : range_from(p + step);
    multiply_k_range(range, p == 0 ? bias : nullptr, kept ? panels_at(*kept, p, 0) : kept,
                     is_last ? squares : SquareSums(), is_last ? nullptr : &next);
  }
}

/// The sum of squares of a c (m, n) that run(squares) computes: units of c in f64, then these in their order,
/// so the bits do not depend on how c is shared.
template <class Run>
double sum_of_squares(int64_t m, int64_t n, const Run& run) {
  const int64_t panels = 2 * units(n), count = units(m) * panels;
  const Scratch<double> squares(count);
  std::fill_n(squares.get(), count, 0.0);
  run(SquareSums{squares.get(), panels});
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += squares.get()[i];
  return sum;
}

/// Each thread packs its columns of b, and its rows of a where a is stored transposed.
template <class C>
ThreadCut choose_cut(const Gemm<bfloat16, C>& gemm, int64_t parts) {
  static_assert(pair_path.costs.row_step == tile_rows && pair_path.costs.column_step == panel_width);
  return fastest_cut(gemm.m, gemm.n, parts, (gemm.a_transposed ? packed_pair_path : pair_path).costs);
}

/// A weight's gradient on tiles by all threads, and a product over a very long k. They pack the operands
/// together, then multiply blocks of c: each those of its rows, and when these are done some of the others'
/// (tiles are so fast that a thread which is held up for a moment would else be waited for). The bits of c do
/// not depend on how it is shared.
template <class C>
class SharedProduct {
 public:
  SharedProduct(const Gemm<bfloat16, C>& gemm, const float* bias, int64_t threads)
      : gemm_(gemm), bias_(bias), threads_(threads) {}

  void run() const { multiply({}); }
  /// The same, and returns the sum of the squares of c's values, a f32 c.
  double run_with_squares() const {
    return sum_of_squares(gemm_.m, gemm_.n, [&](SquareSums squares) { multiply(squares); });
  }

 private:
  void multiply(SquareSums squares) const {
    const int64_t step = longest_range(gemm_);
    for (int64_t p = 0; p < gemm_.k; p += step)
      multiply_range(range_of(gemm_, p, std::min(step, gemm_.k - p)), p == 0 ? bias_ : nullptr,
                     p + step >= gemm_.k ? squares : SquareSums());
  }

  void multiply_range(const Gemm<bfloat16, C>& gemm, const float* bias, SquareSums squares) const {
    const int64_t width = packed_together(gemm.n, gemm.k),
                  height = gemm.a_transposed ? packed_together(gemm.m, gemm.k) : gemm.m;
    const Scratch<uint32_t> packed_a(gemm.a_transposed ? PackedRows::size_for(gemm.k, height) : 0);
    const Scratch<uint32_t> packed_b(PairPanels::size_for(gemm.k, width));
    const PairPanels b{packed_b.get(), PairPanels::stride_for(gemm.k)};
    auto* const rows = reinterpret_cast<bfloat16*>(packed_a.get());
    for (int64_t j = 0; j < gemm.n; j += width)
      for (int64_t i = 0; i < gemm.m; i += height) {
        const Gemm<bfloat16, C> block =
            gemm.tile(i, std::min(height, gemm.m - i), j, std::min(width, gemm.n - j));
        // One block of packed rows serves all columns.
        pack(block, i > 0 ? nullptr : &b, j > 0 && height >= gemm.m ? nullptr : rows);
        const TileRows a =
            gemm.a_transposed ? TileRows::packed(rows, gemm.k) : TileRows::in_place(block.a, block.lda);
        multiply_block(block, a, b, bias ? bias + j : nullptr, squares.at(i, j));
      }
  }

  /// Packs b and a, each unless its target is null.
  void pack(const Gemm<bfloat16, C>& gemm, const PairPanels* to_b, bfloat16* to_a) const {
    const int64_t of_a = to_a ? units(gemm.m) : 0, all = of_a + (to_b ? units(gemm.n) : 0);
    parallel_for(all, std::max<int64_t>(1, (1 << 13) / gemm.k), [&](int64_t begin, int64_t end) {
      if (begin < of_a) {
        const int64_t i = begin * unit, rows = std::min(std::min(end, of_a) * unit, gemm.m) - i;
        pack_tiles(gemm.a_at(i, 0), gemm.lda, gemm.k, rows, to_a + i * TileRows::row_for(gemm.k));
      }
      if (end > of_a) {
        const int64_t j = std::max<int64_t>(begin - of_a, 0) * unit,
                      columns = std::min((end - of_a) * unit, gemm.n) - j;
        pack_pairs(gemm.b_at(0, j), gemm.ldb, gemm.b_transposed, gemm.k, columns, panels_at(*to_b, 0, j));
      }
    });
  }

  void multiply_block(const Gemm<bfloat16, C>& gemm, const TileRows& a, const PairPanels& b,
                      const float* bias, SquareSums squares) const {
    const SharedGrid grid = grid_of(gemm.m, gemm.n, gemm.k, threads_);
    const bool streamed = streams(gemm, threads_);
    SharedBlocks(grid).for_each([&](int64_t i, int64_t j) {
      const int64_t row = i * grid.height, column = j * grid.width;
      const Gemm<bfloat16, C> block =
          gemm.tile(row, std::min(grid.height, gemm.m - row), column, std::min(grid.width, gemm.n - column));
      TileRows rows = a;
      rows.data = a.at(row, 0);
      PairTarget target = target_of(block, bias ? bias + column : nullptr, 0);
      target.streams = streamed;
      target.squares = squares.at(row, column);
      multiply_tiles(block.m, block.n, block.k, rows, panels_at(b, 0, column), target);
    });
  }

  const Gemm<bfloat16, C>& gemm_;
  const float* bias_;
  int64_t threads_;
};

/// A product on tiles of a first operand in place, by all threads: each packs the columns of its part as it
/// gets to them, so they stay in its second-level cache (packed by all threads together, they took a quarter
/// of the time of a product of 1,024 rows).
template <class C>
class ProductInPlace {
 public:
  ProductInPlace(const Gemm<bfloat16, C>& gemm, const float* bias, int64_t threads, const KeptPanels& kept)
      : gemm_(gemm),
        bias_(bias),
        kept_(kept),
        streams_(streams(gemm, threads)),
        items_(gemm.m, gemm.n, fastest_cut(gemm.m, gemm.n, threads, tile_path.costs),
               [&](const ProductBlock& block) { return item_size(block, gemm.k); }) {}

  void run() const {
    items_.for_each([&] {
      return [worker = std::make_unique<Worker>(*this)](const ProductBlock& item) { worker->multiply(item); };
    });
  }

 private:
  static PartItems::Size item_size(const ProductBlock& block, int64_t k) {
    const int64_t most = std::max(most_private / (2 * k) / unit * unit, 4 * unit);
    const int64_t width = std::min(tile_block_columns(k, block.columns), most),
                  blocks = (block.columns + width - 1) / width,
                  columns = units((block.columns + blocks - 1) / blocks) * unit,
                  bands = (part_items + blocks - 1) / blocks;
    const int64_t rows = std::clamp(block.rows / bands, least_band, most_band);
    const int64_t down = (block.rows + rows - 1) / rows;
    return {columns, units((block.rows + down - 1) / down) * unit};
  }

  /// A thread with the columns that it packed last.
  class Worker {
   public:
    explicit Worker(const ProductInPlace& product)
        : product_(product),
          memory_(product.kept_ ? 0 : PairPanels::size_for(product.gemm_.k, product.items_.widest())),
          own_{memory_.get(), PairPanels::stride_for(product.gemm_.k)} {}

    void multiply(const ProductBlock& item) {
      const Gemm<bfloat16, C>& g = product_.gemm_;
      if (!product_.kept_ && (item.column != column_ || item.columns != columns_)) {
        pack_pairs(g.b_at(0, item.column), g.ldb, g.b_transposed, g.k, item.columns, own_);
        column_ = item.column;
        columns_ = item.columns;
      }
      const Gemm<bfloat16, C> block = g.tile(item.row, item.rows, item.column, item.columns);
      PairTarget target = target_of(block, product_.bias_ ? product_.bias_ + item.column : nullptr, 0);
      target.streams = product_.streams_;
      multiply_tiles(block.m, block.n, block.k, TileRows::in_place(block.a, block.lda),
                     product_.kept_ ? panels_at(*product_.kept_, 0, item.column) : own_, target);
    }

   private:
    const ProductInPlace& product_;
    Scratch<uint32_t> memory_;
    PairPanels own_;
    int64_t column_ = -1, columns_ = 0;
  };

  const Gemm<bfloat16, C>& gemm_;
  const float* bias_;
  KeptPanels kept_;
  bool streams_;
  PartItems items_;
};

/// Packs all of a product's b by all threads.
template <class C>
void pack_all(const Gemm<bfloat16, C>& gemm, const PairPanels& to) {
  parallel_for(units(gemm.n), std::max<int64_t>(1, (1 << 13) / gemm.k), [&](int64_t begin, int64_t end) {
    const int64_t j = begin * unit, columns = std::min(end * unit, gemm.n) - j;
    pack_pairs(gemm.b_at(0, j), gemm.ldb, gemm.b_transposed, gemm.k, columns, panels_at(to, 0, j));
  });
}

/// The panels of a b that stays packed between products.
template <class C>
KeptPanels kept_panels(const ProductBatch<bfloat16, C>& batch, const Tensor& b) {
  const Gemm<bfloat16, C>& g = batch.first;
  if (kept_operands == nullptr || batch.count != 1 || g.a_transposed) return {};
  const int64_t stride = PairPanels::stride_for(g.k);
  void* const memory =
      kept_operands->find_or_pack(b, {g.b, g.k, g.n, g.ldb, g.b_transposed, PackedForm::bf16_pairs}, g.m,
                                  4 * PairPanels::size_for(g.k, g.n), [&](void* to) {
                                    pack_all(g, {static_cast<uint32_t*>(to), stride});
                                  });
  if (memory == nullptr) return {};
  return PairPanels{static_cast<uint32_t*>(memory), stride};
}

/// A product on vectors, and the sum of the squares of its f32 result. Parts begin with units of squares.
double vectors_with_squares(const ProductBatch<bfloat16, float>& batch, const float* bias) {
  const Gemm<bfloat16, float>& all = batch.first;
  const auto cut = [](const Gemm<bfloat16, float>& gemm, int64_t parts) {
    static_assert(pair_squares_path.costs.row_step == SquareSums::rows);
    CutCosts costs = pair_squares_path.costs;
    if (!gemm.a_transposed) costs.a_work = pair_path.costs.a_work;
    return fastest_cut(gemm.m, gemm.n, parts, costs);
  };
  return sum_of_squares(all.m, all.n, [&](SquareSums squares) {
    for_each_block(batch, grain, cut, [&](const Gemm<bfloat16, float>& block, int64_t column) {
      const int64_t row = (block.c - all.c - column) / all.ldc;
      multiply_all_ranges(block, bias ? bias + column : nullptr, {}, squares.at(row, column));
    });
  });
}

/// The squares of a f32 result are summed where it is stored.
bool run_with_squares(const ProductBatch<bfloat16, float>& batch, const float* bias, int64_t threads) {
  if (!product_squares.wanted || batch.count != 1) return false;
  product_squares.sum = multiplies_pairs_on_tiles()
                            ? SharedProduct<float>(batch.first, bias, threads).run_with_squares()
                            : vectors_with_squares(batch, bias);
  return true;
}
bool run_with_squares(const ProductBatch<bfloat16, bfloat16>&, const float*, int64_t) {
  return false;
}

template <class C>
void run(const Tensor& a, const Tensor& b, const float* bias, const Tensor& out, bool accumulate) {
  const ProductBatch<bfloat16, C> batch = product_batch<bfloat16, C>(a, b, out, accumulate);
  const Gemm<bfloat16, C>& first = batch.first;
  const bool on_tiles = multiplies_pairs_on_tiles();
  const int64_t threads = worthwhile_threads(first.m, first.n, first.k, num_threads());
  if (run_with_squares(batch, bias, threads)) return;
  const bool by_all_threads = batch.count == 1 && on_tiles && threads > 1;
  if (by_all_threads && !multiplies_all_of_k(first)) return SharedProduct<C>(first, bias, threads).run();
  const KeptPanels kept = kept_panels(batch, b);
  if (by_all_threads) return ProductInPlace<C>(first, bias, threads, kept).run();
  for_each_block(batch, on_tiles ? tile_grain : grain, &choose_cut<C>,
                 [&](const Gemm<bfloat16, C>& block, int64_t column) {
                   multiply_all_ranges(block, bias ? bias + column : nullptr,
                                       kept ? panels_at(*kept, 0, column) : kept);
                 });
}

}  // namespace

template <class C>
void gemm_bf16(const Gemm<bfloat16, C>& gemm, const float* bias) {
  multiply_all_ranges(gemm, bias, {});
}

SharedGrid tile_grid(int64_t m, int64_t n, int64_t k, int64_t threads) {
  return grid_of(m, n, k, worthwhile_threads(m, n, k, threads));
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
