#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/gemm/pairs/rows_ahead.h"
#include "tensor/types/float_types.h"

/// The inner kernels of a bf16 product, for processors that multiply pairs of bf16 into f32 (vdpbf16ps, of
/// AVX512-BF16). The second operand is packed in panels, the first is read in place.
namespace tessera::kernels::cpu {

/// Columns of a panel, one vector of accumulators.
inline constexpr int64_t panel_width = 16;
/// Rows of c that one call of the kernel computes at most.
inline constexpr int64_t tile_rows = 8;

/// Whether this processor has the instructions and the limit on instruction sets (tensor/cpu/isa.h) allows
/// them; or a model of the tiles is used (../tiles/tile_registers.h).
bool multiplies_bf16_pairs();
/// Whether products run on tiles, or on their model: where the pairs of the first operand lie side by side.
bool multiplies_pairs_on_tiles();

/// A matrix (k, n) in panels of 16 columns. A panel is ceil(k / 2) vectors, each with the elements of rows 2p
/// and 2p + 1 side by side for every column. Edges are padded with 0.
struct PairPanels {
  uint32_t* data;
  int64_t stride;  // between panels, in pairs

  /// Pairs between panels: an odd number of vectors, so that panels begin in different sets of a cache.
  static int64_t stride_for(int64_t k) { return ((k + 1) / 2 | 1) * panel_width; }
  static int64_t count_for(int64_t n) { return (n + panel_width - 1) / panel_width; }
  /// Pairs (of 32 bits) that a (k, n) matrix occupies.
  static int64_t size_for(int64_t k, int64_t n) { return stride_for(k) * count_for(n); }
};

/// Packs a matrix whose rows are `leading` elements apart, or, when `transposed`, whose columns are.
void pack_pairs(const bfloat16* from, int64_t leading, bool transposed, int64_t k, int64_t n,
                const PairPanels& to);

/// A first operand (m, k) as tiles read it: element (i, p) is at data + i / 16 * panel + i % 16 * row + p /
/// 32 * step + p % 32. A matrix in place has row = its leading dimension, panel = 16 row and step = 32.
struct TileRows {
  const bfloat16* data;
  int64_t row, panel, step;

  static TileRows in_place(const bfloat16* data, int64_t row) { return {data, row, 16 * row, 32}; }
  /// Whole tiles of 16 rows by 32 elements one after another along k, as `pack_tiles` writes them.
  static TileRows packed(const bfloat16* data, int64_t k) { return {data, 32, 16 * row_for(k), 512}; }
  /// k, rounded up to whole tiles.
  static int64_t row_for(int64_t k) { return (k + 31) / 32 * 32; }
  /// Elements that a packed (m, k) operand occupies.
  static int64_t size_for(int64_t k, int64_t m) { return (m + 15) / 16 * 16 * row_for(k); }

  /// Row i, a multiple of 16, from p on, a multiple of 32.
  const bfloat16* at(int64_t i, int64_t p) const { return data + i / 16 * panel + p / 32 * step; }
};

/// Packs the transpose (m, k) of a matrix (k, m), with rows `leading` elements apart, as
/// `TileRows::packed`. Elements after k and rows after m are 0.
void pack_tiles(const bfloat16* from, int64_t leading, int64_t k, int64_t m, bfloat16* to);

/// The first operand: pair p of row i is at data + i * row + p * pair (in elements). Contiguous rows have
/// pair = 2; a panel of `pack_pairs` has row = 2 and pair = 32.
struct PairRows {
  const bfloat16* data;
  int64_t row, pair;
};

/// Sums of squares of what a product stores in f32: in f64, one for each 32 rows by 16 columns of c, to which
/// those of element (i, j) are added at sums[i / 32 * leading + j / 16].
struct SquareSums {
  static constexpr int64_t rows = 32;
  double* sums = nullptr;  ///< null: none are computed
  int64_t leading = 0;

  /// Those of the part of c from (i, j) on, multiples of the unit.
  SquareSums at(int64_t i, int64_t j) const {
    return sums ? SquareSums{sums + i / rows * leading + j / panel_width, leading} : *this;
  }
};

/// The destination of the sums: f32 or bf16, rounded once, after `bias` (null: none) and, with `accumulate`,
/// the value in c have been added in f32. `streams`: the product on tiles writes whole lines of c past the
/// caches, which then do not read them first; for a c in bf16 that is too large for them, not accumulated,
/// with rows that begin on 64 bytes. `resident`: a product on tiles
/// that is accumulated in f32 without a bias sums from what c holds, which is in the cache, so it is rounded
/// in another order than without; on vectors it changes nothing.
struct PairTarget {
  void* c;
  int64_t leading;
  bool is_f32, accumulate;
  const float* bias;
  bool streams = false;
  bool resident = false;
  SquareSums squares = {};
};

/// A block of sums (rows, columns) that are multiplied and not yet stored; its place in c begins at (row,
/// column). The rows of sums are `leading` apart, on 64 bytes, with space for whole vectors.
struct PairSums {
  const float* sums;
  int64_t leading;
  PairTarget target;
  int64_t row, column, columns;
  /// Null, or the squares of the values in f32 that were stored of the block so far: 16 for each 16 columns.
  double* squares = nullptr;
};

/// Stores rows `begin` to `end` of a block; and without vectors, for the model of the tiles.
/// @{
void store_sums(const PairSums& block, int64_t begin, int64_t end);
void store_sums_plainly(const PairSums& block, int64_t begin, int64_t end);
/// @}

/// c (m, n) = a (m, k) b (k, n), on tiles where there are some. Every element is summed over k in one order,
/// whatever m, n and its position. On vectors `ahead->fetch()` is called `ahead_turns(m, n, k)` times, unless
/// `ahead` is null.
void multiply_pairs(int64_t m, int64_t n, int64_t k, const PairRows& a, const PairPanels& b,
                    const PairTarget& target, RowsAhead* ahead = nullptr);
/// The tiles of c on vectors, times the parts of a tile between which lines are prefetched.
int64_t ahead_turns(int64_t m, int64_t n, int64_t k);
/// The same on tiles, where `multiplies_pairs_on_tiles()`.
void multiply_tiles(int64_t m, int64_t n, int64_t k, const TileRows& a, const PairPanels& b,
                    const PairTarget& target);

}  // namespace tessera::kernels::cpu
