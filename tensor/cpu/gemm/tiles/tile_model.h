#pragma once  // internal

#include <cmath>
#include <cstdint>
#include <cstring>

#include "tensor/cpu/gemm/pairs/gemm_bf16_kernels.h"
#include "tensor/cpu/gemm/tiles/tile_shapes.h"
#include "tensor/error.h"

namespace tessera::kernels::cpu {

/// The eight tiles in C++, by Intel's description of the instructions (SDM, volume 2: LDTILECFG, TILEZERO,
/// TILELOADD, TILESTORED, TDPBF16PS). For tests on processors without tiles; a use that the processor would
/// refuse throws.
class TileModel {
 public:
  void configure(const TileShapes& shapes) {
    require<Error>(shapes.palette == 1 && shapes.start_row == 0, "LDTILECFG: palette ", int{shapes.palette});
    for (int t = 0; t < 8; ++t)
      require<Error>(shapes.rows[t] >= 1 && shapes.rows[t] <= 16 && shapes.row_bytes[t] >= 4 &&
                         shapes.row_bytes[t] <= 64 && shapes.row_bytes[t] % 4 == 0,
                     "LDTILECFG: tile ", t, " of ", int{shapes.rows[t]}, " rows of ", shapes.row_bytes[t],
                     " bytes");
    for (int t = 8; t < 16; ++t)
      require<Error>(shapes.rows[t] == 0 && shapes.row_bytes[t] == 0, "LDTILECFG: there is no tile ", t);
    shapes_ = shapes;
    std::memset(data_, 0, sizeof data_);
  }
  template <int t>
  void zero() {
    require_configured();
    std::memset(data_[t], 0, sizeof data_[t]);
  }
  template <int t>
  void load(const void* from, int64_t stride) {
    require_configured();
    std::memset(data_[t], 0, sizeof data_[t]);
    for (int r = 0; r < shapes_.rows[t]; ++r)
      std::memcpy(data_[t][r], static_cast<const char*>(from) + r * stride, shapes_.row_bytes[t]);
  }
  template <int t>
  void store(void* to, int64_t stride) const {
    require_configured();
    for (int r = 0; r < shapes_.rows[t]; ++r)
      std::memcpy(static_cast<char*>(to) + r * stride, data_[t][r], shapes_.row_bytes[t]);
  }
  /// TDPBF16PS: the products of the even and of the odd elements are summed apart, in the order of k, then
  /// added to each other and to the tile. Denormals are read and written as 0.
  template <int c, int a, int b>
  void multiply() {
    require_configured();
    const int pairs = shapes_.row_bytes[a] / 4, columns = shapes_.row_bytes[c] / 4;
    require<Error>(shapes_.rows[a] == shapes_.rows[c] && shapes_.rows[b] == pairs &&
                       shapes_.row_bytes[b] == shapes_.row_bytes[c],
                   "TDPBF16PS: tiles of ", int{shapes_.rows[c]}, " x ", shapes_.row_bytes[c], ", ",
                   int{shapes_.rows[a]}, " x ", shapes_.row_bytes[a], ", ", int{shapes_.rows[b]}, " x ",
                   shapes_.row_bytes[b], " bytes");
    for (int i = 0; i < shapes_.rows[c]; ++i)
      for (int j = 0; j < columns; ++j) {
        float even = 0, odd = 0;
        for (int p = 0; p < pairs; ++p) {
          even = fused(element(a, i, 2 * p), element(b, p, 2 * j), even);
          odd = fused(element(a, i, 2 * p + 1), element(b, p, 2 * j + 1), odd);
        }
        float sum;
        std::memcpy(&sum, &data_[c][i][4 * j], 4);
        sum = flushed(flushed(sum) + flushed(even + odd));
        std::memcpy(&data_[c][i][4 * j], &sum, 4);
      }
  }
  static void store_sums(const PairSums& block, int64_t begin, int64_t end) {
    store_sums_plainly(block, begin, end);
  }

 private:
  void require_configured() const { require<Error>(shapes_.palette == 1, "tiles: not configured"); }
  static float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
  static float fused(float x, float y, float sum) { return flushed(std::fma(x, y, sum)); }
  /// Element `x` of bf16 of a row.
  float element(int tile, int row, int x) const {
    uint16_t half;
    std::memcpy(&half, &data_[tile][row][2 * x], 2);
    const uint32_t bits = static_cast<uint32_t>(half) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return flushed(value);
  }

  TileShapes shapes_ = [] {
    TileShapes none;
    none.palette = 0;
    return none;
  }();
  unsigned char data_[8][16][64] = {};
};

}  // namespace tessera::kernels::cpu
