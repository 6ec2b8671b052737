#pragma once  // internal

#include <algorithm>
#include <cstdint>

#include "tensor/cpu/gemm/packed/packed_product.h"
#include "tensor/cpu/loops/scratch.h"

/// The blocks of an f32 product by our kernels: how long its ranges of k are, and the layout of a packed
/// second operand.
namespace tessera::kernels::cpu {

/// Rows and columns of the largest tile.
inline constexpr int64_t packed_tile_rows = 8, packed_tile_columns = 3 * packed_columns;
/// The longest range of k: eight rows of a take a third of a first-level cache of 48 KiB.
inline constexpr int64_t longest_packed_range = 512;
/// The packed block of b that rows are multiplied with: 384 KiB of a second-level cache.
inline constexpr int64_t packed_block_elements = 96 * 1024;

inline int64_t rounded_up(int64_t x, int64_t step) {
  return (x + step - 1) / step * step;
}

/// An extent in equal blocks of at most `largest`, which are multiples of `step` but for the last.
inline int64_t equal_blocks(int64_t extent, int64_t largest, int64_t step) {
  const int64_t blocks = (extent + largest - 1) / largest;
  return rounded_up((extent + blocks - 1) / blocks, step);
}

/// The length of the ranges of k; their sums are added in c, a function of k alone.
inline int64_t packed_range(int64_t k) {
  return equal_blocks(k, longest_packed_range, 8);
}

/// The columns of b that are multiplied at a time over a range of `depth`, of `n`: whole tiles, in equal
/// blocks.
inline int64_t packed_block_columns(int64_t depth, int64_t n) {
  const int64_t most = packed_block_elements / depth / packed_tile_columns * packed_tile_columns;
  return equal_blocks(n, std::max(most, packed_tile_columns), packed_tile_columns);
}

/// The distance between panels of `depth` rows: an odd number of lines, so that panels begin in different
/// sets of a cache.
inline int64_t packed_panel_stride(int64_t depth) {
  return (depth | 1) * packed_columns;
}
inline int64_t packed_panels(int64_t n) {
  return (n + packed_columns - 1) / packed_columns;
}

/// The product over one range of k; its sums are added to those of the ranges before.
struct PackedRange {
  int64_t first, depth;
  bool accumulate;
  const float* bias;  ///< with the last range, where there is one
};

template <class Body>
void for_each_packed_range(int64_t k, bool accumulate, const float* bias, const Body& body) {
  const int64_t step = packed_range(k);
  for (int64_t p = 0; p < k; p += step)
    body(PackedRange{p, std::min(step, k - p), accumulate || p > 0, p + step >= k ? bias : nullptr});
}

/// The sum of squares of a c (m, n) that run(squares) computes: units of c in f64, then these in their order,
/// so the bits do not depend on how c is shared.
template <class Run>
double packed_squares(int64_t m, int64_t n, const Run& run) {
  const int64_t columns = packed_panels(n), count = (m + F32Squares::rows - 1) / F32Squares::rows * columns;
  const Scratch<double> squares(count);
  std::fill_n(squares.get(), count, 0.0);
  run(F32Squares{squares.get(), columns});
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += squares.get()[i];
  return sum;
}

}  // namespace tessera::kernels::cpu
