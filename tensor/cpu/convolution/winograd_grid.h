#pragma once  // internal

#include <algorithm>
#include <array>
#include <cstring>

#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/loops/winograd_tiles.h"
#include "tensor/tensor.h"

/// The tiles of Winograd's convolutions, and where their pixels are.
namespace tessera::kernels::cpu::winograd_grid {

inline constexpr int64_t block_channels = 32;  ///< channels of a task's result
inline constexpr int64_t block_tiles = 64;     ///< tiles of a product
inline constexpr int64_t taps = 9;

inline int64_t divided_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Elements from one of a tile's 36 values to the next: an odd number of cache lines, so that 36 streams of
/// stores fall into different sets of the cache.
inline int64_t step_for(int64_t elements) {
  return (divided_up(elements, 16) | 1) * 16;
}

template <class T>
const WinogradTiles<T>& tile_maps() {
  if constexpr (std::is_same_v<T, float>)
    return TESSERA_PER_ISA(winograd_tiles_f32)();
  else
    return TESSERA_PER_ISA(winograd_tiles_bf16)();
}

/// A plane of pixels, and the tiles over it: tile (i, j) begins at pixel (4 i - before, 4 j - before).
struct Plane {
  int64_t height, width, before;
};

/// The tiles of all images, over the 4 x 4 squares of y.
struct TileGrid {
  int64_t rows, columns, images;

  TileGrid(int64_t n, int64_t height, int64_t width)
      : rows(divided_up(height, winograd_outputs)), columns(divided_up(width, winograd_outputs)), images(n) {}
  int64_t count() const { return rows * columns * images; }
};

/// The addresses of a tile's extent x extent pixels in a channels-last tensor, row-major, from channel
/// `channel` on; `outside` for those outside of the plane.
template <int64_t extent, class T>
std::array<T*, extent * extent> pixels_of(const TileGrid& grid, const Plane& plane, int64_t tile, T* data,
                                          int64_t channels, int64_t channel, T* outside) {
  const int64_t image = tile / (grid.rows * grid.columns), row = tile / grid.columns % grid.rows;
  const int64_t top = row * winograd_outputs - plane.before;
  const int64_t left = tile % grid.columns * winograd_outputs - plane.before;
  std::array<T*, extent * extent> pixels;
  for (int64_t i = 0; i < extent; ++i)
    for (int64_t j = 0; j < extent; ++j) {
      const int64_t h = top + i, w = left + j;
      const bool inside = h >= 0 && h < plane.height && w >= 0 && w < plane.width;
      pixels[i * extent + j] =
          inside ? data + ((image * plane.height + h) * plane.width + w) * channels + channel : outside;
    }
  return pixels;
}

/// Tiles of one chunk, so that `bytes` a tile stay within the last-level cache; chunks are of equal size.
inline int64_t chunk_tiles(int64_t tiles, int64_t bytes) {
  constexpr int64_t limit = 10 << 20;
  const int64_t chunks = divided_up(tiles, std::max(block_tiles, limit / bytes));
  return divided_up(tiles, chunks);
}

/// Zeros in place of the pixels outside of a plane.
template <class T>
struct Zeros {
  Scratch<T> memory;
  explicit Zeros(int64_t channels) : memory(channels) { std::memset(memory.get(), 0, channels * sizeof(T)); }
  T* get() const { return memory.get(); }
};

/// Calls run(pointer to x's type), of float and bfloat16.
template <class Run>
void with_type(const Tensor& x, const Run& run) {
  if (x.dtype() == f32)
    run(static_cast<float*>(nullptr));
  else
    run(static_cast<bfloat16*>(nullptr));
}

template <class T>
T* data_of(const Tensor& x) {
  return static_cast<T*>(x.raw_data());
}

}  // namespace tessera::kernels::cpu::winograd_grid
