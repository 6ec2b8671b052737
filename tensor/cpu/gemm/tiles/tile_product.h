#pragma once  // internal

#include <algorithm>
#include <cstdint>

#include "tensor/cpu/gemm/pairs/gemm_bf16_kernels.h"
#include "tensor/cpu/gemm/tiles/tile_shapes.h"
#include "tensor/cpu/loops/scratch.h"

/// c (m, n) = a (m, k) b (k, n) in bf16 on tiles of 16 x 32 elements. `Tiles` executes the instructions: the
/// processor (tile_registers.cpp), or a model of them in C++ (tile_model.h), so that this code runs anywhere.
///
/// A tile of a is 16 rows of 32 elements, in place. A tile of b is 16 pairs of rows by 16 columns: what a
/// panel of `pack_pairs` holds. A block of c has four tiles of sums: two by two, so that each tile loaded is
/// multiplied twice, or one by four where there are at most 16 rows.
///
///                       B B                                       B B B B
///                   A   0 1      loads 4, multiplies 4        A   0 1 2 3    loads 5, multiplies 4
///                   A   2 3
///
/// The sums of a finished block wait in memory, and are added to the bias and to c, rounded and stored a few
/// rows at a time between the instructions of the next block: these leave the vector units idle.
///
/// Where k is long, rows are multiplied over one range of it after another, so that b's panels of a range
/// stay in the second-level cache; the sums wait in memory and are loaded again, which changes no bit.
///
/// An element is summed from 0 over k in steps of 32, in the order of the instruction within a step; then the
/// bias, and what c holds, are added. Where c is resident, an element is summed from what c holds. This
/// depends neither on m, n nor on its position.
namespace tessera::kernels::cpu {

inline constexpr int64_t tile_k = 32;
/// The longest range of k, and the rows that are multiplied over all ranges before the next rows.
inline constexpr int64_t tile_k_range = 1024, tile_range_rows = 512;

template <class Tiles>
class TileProduct {
 public:
  TileProduct(Tiles& tiles, const TileRows& a, const PairPanels& b, const PairTarget& target, int64_t n,
              int64_t k)
      : tiles_(tiles), a_(a), b_(b), target_(target), n_(n), k_(k) {}

  void run(int64_t m) {
    const int64_t ranges = (k_ + tile_k_range - 1) / tile_k_range;
    if (ranges == 1) {
      rows(0, m, {.first = 0, .end = k_, .is_first = true, .is_last = true});
      return finish_block();
    }
    const int64_t step = ((k_ + ranges - 1) / ranges + tile_k - 1) / tile_k * tile_k;
    kept_leading_ = (n_ + 15) / 16 * 16 + 16;
    const Scratch<float> kept(std::min(m, tile_range_rows) * kept_leading_);
    kept_ = kept.get();
    for (first_kept_ = 0; first_kept_ < m; first_kept_ += tile_range_rows)
      for (int64_t p = 0; p < k_; p += step)
        rows(first_kept_, std::min(m, first_kept_ + tile_range_rows),
             {.first = p, .end = std::min(p + step, k_), .is_first = p == 0, .is_last = p + step >= k_});
    finish_block();
  }

 private:
  static constexpr int first_a = 4, first_b = 6;  // tiles 0 to 3 are sums
  static constexpr int64_t block_values = 32 * 32, most_columns = 64;

  /// A part of k; all but the last are a multiple of `tile_k`.
  struct Range {
    int64_t first, end;
    bool is_first, is_last;
  };
  /// A block of c from (i, j) on.
  struct Block {
    int64_t i, rows, j, columns;
  };
  /// Where the sums of a block are kept.
  struct Place {
    float* sums;
    int64_t leading;
  };

  void rows(int64_t begin, int64_t end, const Range& range) {
    int64_t i = begin;
    if (is_direct() && range.is_first && n_ % panel_width == 0)
      for (; end - i >= 32 && (k_ == tile_k || k_ == 2 * tile_k); i += 32)
        k_ == tile_k ? multiply_short<1>(i) : multiply_short<2>(i);
    for (; end - i > 16; i += 32) row_of_blocks<2>(i, std::min<int64_t>(end - i, 32), range);
    if (end > i) row_of_blocks<1>(i, end - i, range);
  }
  /// Whether tiles are stored in c as they are.
  bool is_direct() const {
    return target_.is_f32 && target_.bias == nullptr && !target_.squares.sums &&
           (!target_.accumulate || target_.resident);
  }

  /// 32 rows of all columns, where k is one or two tiles long: a's tiles stay loaded, and half as many loads
  /// are left. Here a has tiles 4 to 7, b 2 and 3, and the sums 0 and 1.
  template <int steps>
  void multiply_short(int64_t i) {
    configure<2>({i, 32, 0, 32}, tile_k);
    tiles_.template load<4>(a_.at(i, 0), 2 * a_.row);
    tiles_.template load<5>(a_.at(i, 0) + a_.panel, 2 * a_.row);
    if constexpr (steps == 2) {
      tiles_.template load<6>(a_.at(i, tile_k), 2 * a_.row);
      tiles_.template load<7>(a_.at(i, tile_k) + a_.panel, 2 * a_.row);
    }
    load_short<steps>(0);
    for (int64_t j = 0; j < n_; j += panel_width) {
      const Place place = place_in_c({i, 32, j, panel_width});
      float *const first = place.sums, *const second = first + 16 * place.leading;
      if (target_.accumulate) {
        tiles_.template load<0>(first, 4 * place.leading);
        tiles_.template load<1>(second, 4 * place.leading);
      } else {
        tiles_.template zero<0>();
        tiles_.template zero<1>();
      }
      tiles_.template multiply<0, 4, 2>();
      tiles_.template multiply<1, 5, 2>();
      if constexpr (steps == 2) {
        tiles_.template multiply<0, 6, 3>();
        tiles_.template multiply<1, 7, 3>();
      }
      if (j + panel_width < n_) load_short<steps>(j + panel_width);
      tiles_.template store<0>(first, 4 * place.leading);
      tiles_.template store<1>(second, 4 * place.leading);
    }
  }
  template <int steps>
  void load_short(int64_t j) {
    tiles_.template load<2>(panel_at(j, 0), 64);
    if constexpr (steps == 2) tiles_.template load<3>(panel_at(j, tile_k), 64);
  }
  template <int row_tiles>
  void row_of_blocks(int64_t i, int64_t rows, const Range& range) {
    constexpr int64_t width = block_values / (16 * row_tiles);
    for (int64_t j = 0; j < n_; j += width)
      multiply_block<row_tiles>({i, rows, j, std::min(n_ - j, width)}, range);
  }

  template <int row_tiles>
  void multiply_block(const Block& block, const Range& range) {
    const bool direct = is_direct();
    const Place place = place_of<row_tiles>(block, range.is_last, direct);
    const int64_t steps = (range.end - range.first) / tile_k, rest = range.end - range.first - steps * tile_k;
    if (steps > 0) {
      configure<row_tiles>(block, tile_k);
      begin_sums<row_tiles>(block, range, direct);
      const bool prefetches = range.is_last && !direct && !target_.streams;
      multiply_steps<row_tiles>(block, range.first, steps, prefetches);
      store<row_tiles>(place, block);
    }
    if (rest > 0) {
      finish_rows(waiting_rows_);
      configure<row_tiles>(block, rest);
      if (steps > 0)
        load<row_tiles>(place, block);
      else
        begin_sums<row_tiles>(block, range, direct);
      multiply_rest<row_tiles>(block, range.first + steps * tile_k, rest);
      store<row_tiles>(place, block);
    }
    if (!range.is_last || direct) return;
    waiting_ = {place.sums, place.leading, target_, block.i, block.j, block.columns, begin_squares()};
    waiting_rows_ = block.rows;
    finished_rows_ = 0;
    turn_ ^= 1;
  }

  /// 0 squares of a block in f32; null where none are computed.
  double* begin_squares() {
    if (!target_.squares.sums) return nullptr;
    std::fill_n(squares_, most_columns, 0.0);
    return squares_;
  }
  /// The squares of the block that waits, each 16 columns' in order.
  void finish_squares() const {
    const SquareSums to = target_.squares.at(waiting_.row, waiting_.column);
    for (int64_t x = 0; x < waiting_.columns; x += panel_width) {
      double sum = 0;
      for (int64_t lane = x; lane < x + panel_width; ++lane) sum += squares_[lane];
      to.sums[x / panel_width] = sum;
    }
  }

  /// 0, the sums over the ranges before, or what c holds.
  template <int row_tiles>
  void begin_sums(const Block& block, const Range& range, bool direct) {
    if (!range.is_first)
      load<row_tiles>(kept_place(block), block);
    else if (direct && target_.accumulate)
      load<row_tiles>(place_in_c(block), block);
    else
      zero<row_tiles>(block);
  }
  Place place_in_c(const Block& block) const {
    return {static_cast<float*>(target_.c) + block.i * target_.leading + block.j, target_.leading};
  }

  template <int row_tiles>
  Place place_of(const Block& block, bool is_last, bool direct) {
    if (!is_last) return kept_place(block);
    if (!direct) return {sums_[turn_], block_values / (16 * row_tiles)};
    return place_in_c(block);
  }
  Place kept_place(const Block& block) const {
    return {kept_ + (block.i - first_kept_) * kept_leading_ + block.j, kept_leading_};
  }

  /// Whole steps of k, and between them the rows of the block before.
  template <int row_tiles>
  void multiply_steps(const Block& block, int64_t p, int64_t steps, bool prefetches) {
    const bfloat16* a = a_.at(block.i, p);
    const uint32_t* b = panel_at(block.j, p);
    const int64_t at_once = (waiting_rows_ + steps - 1) / steps, fetched = (block.rows + steps - 1) / steps;
    for (int64_t s = 0; s < steps; ++s, a += a_.step, b += tile_k / 2 * panel_width) {
      multiply_step<row_tiles>(a, a_.row, a_.panel, block, b);
      if (prefetches) prefetch(block, s * fetched, fetched);
      finish_rows(at_once);
    }
    finish_rows(waiting_rows_);
  }
  template <int row_tiles>
  void multiply_rest(const Block& block, int64_t p, int64_t rest) {
    const bfloat16* from = a_.at(block.i, p);
    int64_t row = a_.row, panel = a_.panel;
    if (rest % 2 == 1) {  // the last element has no partner: a's next one may not exist
      for (int64_t r = 0; r < block.rows; ++r)
        for (int64_t x = 0; x < tile_k; ++x)
          padded_[r * tile_k + x] = x < rest ? from[r / 16 * panel + r % 16 * row + x] : bfloat16{};
      from = padded_;
      row = tile_k;
      panel = 16 * tile_k;
    }
    multiply_step<row_tiles>(from, row, panel, block, panel_at(block.j, p));
  }

  /// Prefetches `count` rows of the block in c, from row `first` on.
  void prefetch(const Block& block, int64_t first, int64_t count) const {
    const int64_t size = target_.is_f32 ? 4 : 2;
    for (int64_t r = first; r < std::min(first + count, block.rows); ++r) {
      const char* const row =
          static_cast<const char*>(target_.c) + ((block.i + r) * target_.leading + block.j) * size;
      for (int64_t x = 0; x < block.columns * size; x += 64) __builtin_prefetch(row + x, 1, 3);
    }
  }

  /// Stores up to `count` more rows of the block that waits.
  void finish_rows(int64_t count) {
    if (finished_rows_ == waiting_rows_) return;
    const int64_t end = std::min(finished_rows_ + count, waiting_rows_);
    Tiles::store_sums(waiting_, finished_rows_, end);
    finished_rows_ = end;
    if (waiting_.squares && end == waiting_rows_) finish_squares();
  }
  void finish_block() { finish_rows(waiting_rows_); }

  const uint32_t* panel_at(int64_t column, int64_t p) const {
    return b_.data + column / panel_width * b_.stride + p / 2 * panel_width;
  }

  /// The extent of a tile: 16 also where a block does not reach it.
  static int64_t part(int64_t extent, int64_t index) {
    const int64_t rest = extent - 16 * index;
    return rest <= 0 ? 16 : std::min<int64_t>(rest, 16);
  }

  /// Tiles that a block does not reach are not used, and stay whole: most blocks then have one configuration.
  template <int row_tiles>
  void configure(const Block& block, int64_t depth) {
    constexpr int column_tiles = 4 / row_tiles;
    const int64_t pairs = (depth + 1) / 2, rows = block.rows, columns = block.columns;
    // One tile of b after another is loaded where there are four columns of them: the last may be narrower,
    // and has the second of b's tiles.
    const int64_t last = row_tiles == 1 ? (columns - 1) / 16 : 1;
    int64_t wanted = last * 2 + row_tiles - 1;
    for (const int64_t extent : {part(rows, 0), part(rows, 1), part(columns, 0), part(columns, last), pairs})
      wanted = wanted * 32 + extent;
    if (wanted == configured_) return;
    configured_ = wanted;
    TileShapes shapes;
    for (int r = 0; r < row_tiles; ++r)
      for (int t = 0; t < column_tiles; ++t)
        shapes.set(r * column_tiles + t, part(rows, r), 4 * part(columns, t));
    for (int r = 0; r < 2; ++r) shapes.set(first_a + r, part(rows, r), 4 * pairs);
    shapes.set(first_b, pairs, 4 * (row_tiles == 1 ? 16 : part(columns, 0)));
    shapes.set(first_b + 1, pairs, 4 * part(columns, last));
    tiles_.configure(shapes);
  }

  template <int row_tiles>
  void zero(const Block& block) {
    const int64_t rows = block.rows, columns = block.columns;
    if constexpr (row_tiles == 2) {
      tiles_.template zero<0>();
      if (columns > 16) tiles_.template zero<1>();
      if (rows > 16) tiles_.template zero<2>();
      if (rows > 16 && columns > 16) tiles_.template zero<3>();
    } else {
      tiles_.template zero<0>();
      if (columns > 16) tiles_.template zero<1>();
      if (columns > 32) tiles_.template zero<2>();
      if (columns > 48) tiles_.template zero<3>();
    }
  }
  template <int row_tiles>
  void load(const Place& place, const Block& block) {
    const float* const c = place.sums;
    const int64_t leading = place.leading, rows = block.rows, columns = block.columns;
    if constexpr (row_tiles == 2) {
      tiles_.template load<0>(c, 4 * leading);
      if (columns > 16) tiles_.template load<1>(c + 16, 4 * leading);
      if (rows > 16) tiles_.template load<2>(c + 16 * leading, 4 * leading);
      if (rows > 16 && columns > 16) tiles_.template load<3>(c + 16 * leading + 16, 4 * leading);
    } else {
      tiles_.template load<0>(c, 4 * leading);
      if (columns > 16) tiles_.template load<1>(c + 16, 4 * leading);
      if (columns > 32) tiles_.template load<2>(c + 32, 4 * leading);
      if (columns > 48) tiles_.template load<3>(c + 48, 4 * leading);
    }
  }
  template <int row_tiles>
  void store(const Place& place, const Block& block) {
    float* const c = place.sums;
    const int64_t leading = place.leading, rows = block.rows, columns = block.columns;
    if constexpr (row_tiles == 2) {
      tiles_.template store<0>(c, 4 * leading);
      if (columns > 16) tiles_.template store<1>(c + 16, 4 * leading);
      if (rows > 16) tiles_.template store<2>(c + 16 * leading, 4 * leading);
      if (rows > 16 && columns > 16) tiles_.template store<3>(c + 16 * leading + 16, 4 * leading);
    } else {
      tiles_.template store<0>(c, 4 * leading);
      if (columns > 16) tiles_.template store<1>(c + 16, 4 * leading);
      if (columns > 32) tiles_.template store<2>(c + 32, 4 * leading);
      if (columns > 48) tiles_.template store<3>(c + 48, 4 * leading);
    }
  }

  /// Adds the products of one step of k. All loads come first: they wait for memory together.
  template <int row_tiles>
  [[gnu::always_inline]] void multiply_step(const bfloat16* a, int64_t a_row, int64_t a_panel,
                                            const Block& block, const uint32_t* b) {
    const int64_t row = 2 * a_row, rows = block.rows, columns = block.columns;
    tiles_.template load<first_a>(a, row);
    if constexpr (row_tiles == 2) {
      tiles_.template load<first_b>(b, 64);
      if (rows > 16) tiles_.template load<first_a + 1>(a + a_panel, row);
      if (columns > 16) tiles_.template load<first_b + 1>(b + b_.stride, 64);
      tiles_.template multiply<0, first_a, first_b>();
      if (columns > 16) tiles_.template multiply<1, first_a, first_b + 1>();
      if (rows > 16) tiles_.template multiply<2, first_a + 1, first_b>();
      if (rows > 16 && columns > 16) tiles_.template multiply<3, first_a + 1, first_b + 1>();
    } else {
      column<0>(b, columns);
      if (columns > 16) column<1>(b, columns);
      if (columns > 32) column<2>(b, columns);
      if (columns > 48) column<3>(b, columns);
    }
  }
  /// The products with the panel of tile t; the last panel's tile of b may be narrower.
  template <int t>
  void column(const uint32_t* b, int64_t columns) {
    if (columns > 16 * (t + 1)) {
      tiles_.template load<first_b>(b + t * b_.stride, 64);
      tiles_.template multiply<t, first_a, first_b>();
    } else {
      tiles_.template load<first_b + 1>(b + t * b_.stride, 64);
      tiles_.template multiply<t, first_a, first_b + 1>();
    }
  }

  Tiles& tiles_;
  TileRows a_;
  PairPanels b_;
  PairTarget target_;
  int64_t n_, k_;
  int64_t configured_ = -1;  // what the tiles are configured for
  float* kept_ = nullptr;    // sums over the ranges before, from row `first_kept_` on
  int64_t kept_leading_ = 0, first_kept_ = 0;
  PairSums waiting_;  // the block that is multiplied and not stored: set while waiting_rows_ > 0
  int64_t waiting_rows_ = 0, finished_rows_ = 0;
  int turn_ = 0;
  alignas(64) float sums_[2][block_values];
  alignas(64) double squares_[most_columns];  // of the columns of the block that waits
  bfloat16 padded_[32 * tile_k];
};

}  // namespace tessera::kernels::cpu
