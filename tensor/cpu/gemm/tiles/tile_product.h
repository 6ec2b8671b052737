#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/gemm/gemm_bf16_kernels.h"
#include "tensor/cpu/gemm/tiles/tile_shapes.h"
#include "tensor/cpu/loops/convert.h"

/// c (m, n) = a (m, k) b (k, n) in bf16 on tiles of 16 x 32 elements. `Tiles` executes the instructions: the
/// processor (tile_product.cpp), or a model of them in C++ (tile_model.h), so that this code runs anywhere.
///
/// A tile of a is 16 rows of 32 elements, in place. A tile of b is 16 pairs of rows by 16 columns: what a
/// panel of `pack_pairs` holds. A block of c has four tiles of sums: two by two, so that each tile loaded is
/// multiplied twice, or one by four where there are at most 16 rows.
///
///                       B B                                       B B B B
///                   A   0 1      loads 4, multiplies 4        A   0 1 2 3    loads 5, multiplies 4
///                   A   2 3
///
/// An element is summed from 0 over k in steps of 32, in the order of the instruction within a step; then the
/// bias, and what c holds, are added. This depends neither on m, n nor on its position.
namespace tessera::kernels::cpu {

inline constexpr int64_t tile_k = 32;

template <class Tiles>
class TileProduct {
 public:
  TileProduct(Tiles& tiles, const bfloat16* a, int64_t lda, const PairPanels& b, const PairTarget& target,
              int64_t n, int64_t k)
      : tiles_(tiles), a_(a), lda_(lda), b_(b), target_(target), n_(n), k_(k) {}

  void run(int64_t m) {
    int64_t i = 0;
    for (; m - i > 16; i += 32) row_of_blocks<2>(i, m - i < 32 ? m - i : 32);
    if (m > i) row_of_blocks<1>(i, m - i);
  }

 private:
  static constexpr int first_a = 4, first_b = 6;  // tiles 0 to 3 are sums

  template <int row_tiles>
  void row_of_blocks(int64_t i, int64_t rows) {
    constexpr int64_t width = row_tiles == 2 ? 32 : 64;
    for (int64_t j = 0; j < n_; j += width) block<row_tiles>(i, rows, j, n_ - j < width ? n_ - j : width);
  }

  /// `rows` and `columns` of c from (i, j) on.
  template <int row_tiles>
  void block(int64_t i, int64_t rows, int64_t j, int64_t columns) {
    const int64_t whole = k_ / tile_k * tile_k, rest = k_ - whole;
    const bool direct = target_.is_f32 && !target_.accumulate && target_.bias == nullptr;
    float* const c = direct ? static_cast<float*>(target_.c) + i * target_.leading + j : sums_;
    const int64_t leading = direct ? target_.leading : 64;
    if (whole > 0) {
      configure<row_tiles>(rows, columns, tile_k);
      zero<row_tiles>(rows, columns);
      for (int64_t p = 0; p < whole; p += tile_k)
        multiply_step<row_tiles>(a_ + i * lda_ + p, lda_, rows, panel_at(j, p), columns);
      store<row_tiles>(c, leading, rows, columns);
    }
    if (rest > 0) {
      configure<row_tiles>(rows, columns, rest);
      if (whole > 0)
        load<row_tiles>(c, leading, rows, columns);
      else
        zero<row_tiles>(rows, columns);
      const bfloat16* from = a_ + i * lda_ + whole;
      int64_t row = lda_;
      if (rest % 2 == 1) {  // the last element has no partner: a's next one may not exist
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t p = 0; p < tile_k; ++p)
            padded_[r * tile_k + p] = p < rest ? from[r * row + p] : bfloat16{};
        from = padded_;
        row = tile_k;
      }
      multiply_step<row_tiles>(from, row, rows, panel_at(j, whole), columns);
      store<row_tiles>(c, leading, rows, columns);
    }
    if (!direct) add(i, rows, j, columns);
  }

  const uint32_t* panel_at(int64_t column, int64_t p) const {
    return b_.data + column / panel_width * b_.stride + p / 2 * panel_width;
  }

  static int64_t part(int64_t extent, int64_t index) {
    const int64_t left = extent - 16 * index;
    return left < 0 ? 0 : left < 16 ? left : 16;
  }

  /// Tiles that a block does not reach have a row of 4 bytes and are not used.
  template <int row_tiles>
  void configure(int64_t rows, int64_t columns, int64_t depth) {
    constexpr int column_tiles = 4 / row_tiles;
    const int64_t pairs = (depth + 1) / 2;
    TileShapes shapes;
    const auto at_least_one = [](int64_t x) { return x > 0 ? x : 1; };
    for (int r = 0; r < row_tiles; ++r)
      for (int t = 0; t < column_tiles; ++t)
        shapes.set(r * column_tiles + t, at_least_one(part(rows, r)), 4 * at_least_one(part(columns, t)));
    for (int r = 0; r < 2; ++r) shapes.set(first_a + r, at_least_one(part(rows, r)), 4 * pairs);
    for (int t = 0; t < 2; ++t) shapes.set(first_b + t, pairs, 4 * at_least_one(part(columns, t)));
    if constexpr (row_tiles == 1) {
      // One tile of b after another: the last may be narrower, and has the second of b's tiles.
      const int64_t last = (columns + 15) / 16 - 1;
      shapes.set(first_b, pairs, 64);
      shapes.set(first_b + 1, pairs, 4 * at_least_one(part(columns, last)));
    }
    if (shapes == configured_) return;
    configured_ = shapes;
    tiles_.configure(shapes);
  }

  template <int row_tiles>
  void zero(int64_t rows, int64_t columns) {
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
  void load(const float* c, int64_t leading, int64_t rows, int64_t columns) {
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
  void store(float* c, int64_t leading, int64_t rows, int64_t columns) {
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

  /// Adds the products of one step of k.
  template <int row_tiles>
  void multiply_step(const bfloat16* a, int64_t lda, int64_t rows, const uint32_t* b, int64_t columns) {
    const int64_t row = 2 * lda;
    tiles_.template load<first_a>(a, row);
    if constexpr (row_tiles == 2) {
      tiles_.template load<first_b>(b, 64);
      tiles_.template multiply<0, first_a, first_b>();
      if (columns > 16) {
        tiles_.template load<first_b + 1>(b + b_.stride, 64);
        tiles_.template multiply<1, first_a, first_b + 1>();
      }
      if (rows <= 16) return;
      tiles_.template load<first_a + 1>(a + 16 * lda, row);
      tiles_.template multiply<2, first_a + 1, first_b>();
      if (columns > 16) tiles_.template multiply<3, first_a + 1, first_b + 1>();
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

  /// Adds bias and what c holds to the sums, and stores them, rounded once where c is bf16.
  void add(int64_t i, int64_t rows, int64_t j, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r) {
      float* const sums = sums_ + r * 64;
      if (target_.bias != nullptr)
        for (int64_t x = 0; x < columns; ++x) sums[x] += target_.bias[j + x];
      const int64_t at = (i + r) * target_.leading + j;
      if (target_.is_f32) {
        float* const c = static_cast<float*>(target_.c) + at;
        for (int64_t x = 0; x < columns; ++x) c[x] = target_.accumulate ? c[x] + sums[x] : sums[x];
      } else {
        bfloat16* const c = static_cast<bfloat16*>(target_.c) + at;
        if (target_.accumulate)
          for (int64_t x = 0; x < columns; ++x) sums[x] += static_cast<float>(c[x]);
        narrow_contiguous(sums, columns, c);
      }
    }
  }

  Tiles& tiles_;
  const bfloat16* a_;
  int64_t lda_;
  PairPanels b_;
  PairTarget target_;
  int64_t n_, k_;
  TileShapes configured_ = no_shapes();
  alignas(64) float sums_[32 * 64];
  bfloat16 padded_[32 * tile_k];

  static TileShapes no_shapes() {
    TileShapes shapes;
    shapes.palette = 0;
    return shapes;
  }
};

}  // namespace tessera::kernels::cpu
