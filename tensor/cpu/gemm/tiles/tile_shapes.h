#pragma once  // internal

#include <cstdint>

namespace tessera::kernels::cpu {

/// The operand of LDTILECFG: the shapes of eight tiles, each up to 16 rows of 64 bytes (Intel SDM, volume 1,
/// chapter 18, palette 1).
struct TileShapes {
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int64_t row_count, int64_t bytes) {
    rows[tile] = static_cast<uint8_t>(row_count);
    row_bytes[tile] = static_cast<uint16_t>(bytes);
  }
  bool operator==(const TileShapes&) const = default;
};
static_assert(sizeof(TileShapes) == 64);

}  // namespace tessera::kernels::cpu
