#pragma once  // internal

#include "tensor/cuda/attention/arguments.cuh"
#include "tensor/cuda/attention/tensor_core/mma.cuh"

/// Tiles of 16-bit elements in shared memory.
///
/// Layout: rows of `width` elements without gaps, in packs of 16 bytes. Pack p of row r lies at place p xor
/// (r % 8) of its row (with rows of four packs, p xor (r / 2 % 4)). So the eight rows that a phase of
/// ldmatrix reads at one pack lie in eight different groups of banks, and so do the packs of a copied row.
namespace tessera::kernels::cuda::fused_attention {

/// Elements of 16 bytes.
inline constexpr int half_pack = 8;

template <class T, int row_count, int width>
struct HalfTile {
  static constexpr int rows = row_count, packs = width / half_pack;
  static constexpr int row_bytes = 2 * width;
  alignas(row_bytes) T elements[row_count * width];

  /// A pack of a row.
  /// @{
  static __device__ __forceinline__ int offset(int row, int pack) {
    const int place = packs == 4 ? pack ^ (row / 2 % 4) : pack ^ (row % 8);
    return row * width + place * half_pack;
  }
  __device__ __forceinline__ T* at(int row, int pack) { return elements + offset(row, pack); }
  __device__ __forceinline__ const T* at(int row, int pack) const { return elements + offset(row, pack); }
  /// @}

  /// Begins copies of `count` rows of `head_width` columns; what lies beyond is zeros. Neighbouring lanes
  /// have neighbouring packs, and a thread always the same pack of rows whose places are the same.
  template <int threads>
  __device__ __forceinline__ void copy(const T* from, int64_t stride, int count, int head_width) {
    constexpr int rows_at_once = threads / packs;
    static_assert(rows_at_once % 8 == 0 && row_count % rows_at_once == 0);
    const int row = static_cast<int>(threadIdx.x) / packs, pack = static_cast<int>(threadIdx.x) % packs;
    count = pack * half_pack < head_width ? count - row : 0;
    const T* next = from + row * stride + pack * half_pack;
    T* const to = at(row, pack);
#pragma unroll 2
    for (int part = 0; part < row_count / rows_at_once; ++part) {
      const bool is_there = part * rows_at_once < count;
      copy_async(to + part * rows_at_once * width, is_there ? next : from, is_there);
      next += rows_at_once * stride;
    }
  }
};

/// The shared address of pack 2 step + `pack` of a row; pack is 0 or 1. Since rows begin at multiples of
/// their size, the step changes bits of it that no other term has: one instruction, where the place in the
/// row would take a register for every step.
template <class Tile>
__device__ __forceinline__ uint32_t step_address(const Tile& tile, int row, int pack, int step) {
  return shared_address(tile.at(row, pack)) ^ static_cast<uint32_t>(step * 32);
}
/// Rows row .. row + 16 and columns 16 step .. 16 step + 16 as the first operand of a product.
template <class Tile>
__device__ __forceinline__ void load_left(uint32_t (&to)[4], const Tile& tile, int row, int step) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_matrices(to, step_address(tile, row + lane % 16, lane / 16, step));
}
/// The second operand of products that sum over a tile's columns 16 step .. 16 step + 16: to[0], to[1] for
/// its rows row .. row + 8 as columns of the result, to[2], to[3] for the eight after them. The row is a
/// multiple of 8.
template <class Tile>
__device__ __forceinline__ void load_right(uint32_t (&to)[4], const Tile& tile, int row, int step) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_matrices(to, step_address(tile, lane / 16 * 8 + lane % 8, lane / 8 % 2, step) + row * Tile::row_bytes);
}
/// The second operand of products that sum over a tile's rows row .. row + 16: to[0], to[1] for its columns
/// 16 step .. 16 step + 8, to[2], to[3] for the eight after them. The row is a multiple of 8.
template <class Tile>
__device__ __forceinline__ void load_right_transposed(uint32_t (&to)[4], const Tile& tile, int row,
                                                      int step) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_matrices_transposed(to, step_address(tile, lane % 16, lane / 16, step) + row * Tile::row_bytes);
}

/// product (16 row_tiles, columns) = rows row .. row + 16 row_tiles of `left` times the rows of `right`,
/// summed over all columns of both.
template <class T, int row_tiles, int columns, class Left, class Right>
__device__ __forceinline__ void multiply_tiles(float (&product)[row_tiles][columns / 8][4], const Left& left,
                                               int row, const Right& right) {
#pragma unroll
  for (auto& rows : product)
#pragma unroll
    for (auto& fragment : rows) fragment[0] = fragment[1] = fragment[2] = fragment[3] = 0;
#pragma unroll
  for (int step = 0; step < Left::packs / 2; ++step) {
    uint32_t a[row_tiles][4];
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) load_left(a[m], left, row + 16 * m, step);
#pragma unroll
    for (int n = 0; n < columns / 8; n += 2) {
      uint32_t b[4];
      load_right(b, right, 8 * n, step);
#pragma unroll
      for (int m = 0; m < row_tiles; ++m) {
        multiply_add<T>(product[m][n], a[m], b[0], b[1]);
        multiply_add<T>(product[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

/// sum (16 row_tiles, width) += weights (16 row_tiles, rows) times the rows of `right`; the weights are a
/// product's fragments, rounded to T.
template <class T, int row_tiles, int rows, class Right>
__device__ __forceinline__ void accumulate_rows(float (&sum)[row_tiles][Right::packs][4],
                                                const float (&weights)[row_tiles][rows / 8][4],
                                                const Right& right) {
#pragma unroll
  for (int k = 0; k < rows / 16; ++k) {
    uint32_t a[row_tiles][4];
#pragma unroll
    for (int m = 0; m < row_tiles; ++m)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float(&fragment)[4] = weights[m][2 * k + e / 2];
        a[m][e] = packed_pair<T>(fragment[e % 2 * 2], fragment[e % 2 * 2 + 1]);
      }
#pragma unroll
    for (int step = 0; step < Right::packs / 2; ++step) {
      uint32_t b[4];
      load_right_transposed(b, right, 16 * k, step);
#pragma unroll
      for (int m = 0; m < row_tiles; ++m) {
        multiply_add<T>(sum[m][2 * step], a[m], b[0], b[1]);
        multiply_add<T>(sum[m][2 * step + 1], a[m], b[2], b[3]);
      }
    }
  }
}

/// Writes a warp's 16 rows of sums, times a factor for row l / 4 and one for the row 8 below, to rows
/// row .. row + 16 of `tile`, which no other warp uses, and from there to the rows of a head from `first` on,
/// 16 bytes at a time.
template <class T, class Tile>
__device__ __forceinline__ void store_fragments(const float (&sum)[Tile::packs][4], float upper, float lower,
                                                Tile& tile, int row, T* to, int64_t stride, int first,
                                                int count, int head_width) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < Tile::packs; ++n) {
    T* const above = tile.at(row + lane / 4, n) + lane % 4 * 2;
    T* const below = tile.at(row + lane / 4 + 8, n) + lane % 4 * 2;
    *reinterpret_cast<uint32_t*>(above) = packed_pair<T>(sum[n][0] * upper, sum[n][1] * upper);
    *reinterpret_cast<uint32_t*>(below) = packed_pair<T>(sum[n][2] * lower, sum[n][3] * lower);
  }
  __syncwarp();
#pragma unroll
  for (int part = 0; part < Tile::packs / 2; ++part) {
    const int at = part * 32 + lane, line = at / Tile::packs, pack = at % Tile::packs;
    if (first + line < count && pack * half_pack < head_width)
      *reinterpret_cast<uint4*>(to + (first + line) * stride + pack * half_pack) =
          *reinterpret_cast<const uint4*>(tile.at(row + line, pack));
  }
}

}  // namespace tessera::kernels::cuda::fused_attention
