// Tiles of 4 x 4 outputs are taken in chunks whose transformed values fit the caches. For each chunk, x's
// tiles are transformed once; then a task computes 32 channels of some tiles: 36 products (tiles, C) (C, 32)
// of blocks that stay in its second-level cache, and the tiles' way back. Weights are transformed by the task
// that multiplies with them: 36 values for 9 would cost more to store than to compute.
#include "tensor/cpu/convolution/winograd.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tensor/cpu/gemm/resident_product.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/loops/winograd_tiles.h"
#include "tensor/cpu/transpose.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t block_channels = 32;  ///< channels of a task's result
constexpr int64_t block_tiles = 64;     ///< tiles of a product
constexpr int64_t taps = 9;

int64_t divided_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Elements from one of a tile's 36 values to the next: an odd number of cache lines, so that 36 streams of
/// stores fall into different sets of the cache.
int64_t step_for(int64_t elements) {
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
int64_t chunk_tiles(int64_t tiles, int64_t bytes) {
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

/// A convolution from `in` channels to `out`: forward, or the gradient by x, which is one with mirrored taps.
struct Problem {
  int64_t in, out;
  Plane from;             ///< what is read
  int64_t height, width;  ///< of what is written
  bool mirrored;
};

/// The weight (O, C, 3, 3) as u (36, in, block) of the result's channels [first, first + count).
struct WeightBlocks {
  const ConvolutionGeometry& g;
  const float* weight;
  bool mirrored;

  int64_t scratch_elements() const {
    return mirrored ? taps * block_channels : g.in_channels * taps * block_channels;
  }

  void transform(int64_t first, int64_t count, float* scratch, float* u, int64_t step) const {
    const auto transpose = TESSERA_PER_ISA(transpose_f32);
    const auto map = TESSERA_PER_ISA(winograd_weight);
    const int64_t rows = g.in_channels * taps;
    if (mirrored) {
      for (int64_t o = 0; o < g.out_channels; ++o) {
        transpose(weight + (o * g.in_channels + first) * taps, taps, count, taps, scratch, block_channels);
        map(scratch + (taps - 1) * block_channels, -block_channels, count, u + o * block_channels, step);
      }
      return;
    }
    transpose(weight + first * rows, rows, count, rows, scratch, block_channels);
    for (int64_t c = 0; c < g.in_channels; ++c)
      map(scratch + c * taps * block_channels, block_channels, count, u + c * block_channels, step);
  }
};

/// One convolution; both orders of its work are made of `transform` and `multiply`.
template <class T>
class Convolution {
 public:
  Convolution(const Problem& p, const WeightBlocks& weights, int64_t images, const T* x, const float* bias,
              T* y)
      : p_(p),
        weights_(weights),
        x_(x),
        bias_(bias),
        y_(y),
        grid_(images, p.height, p.width),
        blocks_(divided_up(p.out, block_channels)),
        u_step_(step_for(p.in * block_channels)),
        zeros_(p.in) {}

  void run() const {
    constexpr int64_t few_bytes = 3 << 20;
    blocks_* winograd_values* u_step_* static_cast<int64_t>(sizeof(float)) <= few_bytes ? run_by_tiles()
                                                                                        : run_by_channels();
  }

 private:
  /// Where weights are few: all of u first; then a task takes some tiles through all steps, in its
  /// second-level cache.
  void run_by_tiles() const {
    const Scratch<float> u(blocks_ * winograd_values * u_step_);
    parallel_for(blocks_, 1, [&](int64_t begin, int64_t end) {
      const Scratch<float> rows(weights_.scratch_elements());
      for (int64_t block = begin; block < end; ++block)
        weights_.transform(block * block_channels, channels_of(block), rows.get(),
                           u.get() + block * winograd_values * u_step_, u_step_);
    });
    constexpr int64_t some_tiles = 32;
    const int64_t tiles = grid_.count(), v_step = step_for(some_tiles * p_.in);
    parallel_for(divided_up(tiles, some_tiles), 1, [&](int64_t begin, int64_t end) {
      const Scratch<float> v(winograd_values * v_step), m(winograd_values * m_step);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i * some_tiles, count = std::min(some_tiles, tiles - first);
        transform(first, count, v.get(), v_step);
        for (int64_t block = 0; block < blocks_; ++block)
          multiply(v.get(), v_step, first, count, block, u.get() + block * winograd_values * u_step_,
                   m.get());
      }
    });
  }

  /// Else chunks of tiles are transformed by all threads; then a task multiplies with a block of the weights,
  /// which it transforms itself: 36 values for 9 would cost more to store than to compute.
  void run_by_channels() const {
    const int64_t tiles = grid_.count();
    const int64_t chunk = chunk_tiles(tiles, winograd_values * p_.in * static_cast<int64_t>(sizeof(float)));
    const int64_t v_step = step_for(chunk * p_.in);
    const Scratch<float> v(winograd_values * v_step);
    for (int64_t first = 0; first < tiles; first += chunk) {
      const int64_t count = std::min(chunk, tiles - first), groups = divided_up(count, block_tiles);
      parallel_for(count, 4, [&](int64_t begin, int64_t end) {
        transform(first + begin, end - begin, v.get() + begin * p_.in, v_step);
      });
      parallel_for(blocks_ * groups, 1, [&](int64_t begin, int64_t end) {
        const Scratch<float> u(winograd_values * u_step_), m(winograd_values * m_step),
            rows(weights_.scratch_elements());
        for (int64_t i = begin, held = -1; i < end; ++i) {
          const int64_t block = i / groups, start = i % groups * block_tiles;
          if (block != held)
            weights_.transform(block * block_channels, channels_of(block), rows.get(), u.get(), u_step_);
          held = block;
          multiply(v.get() + start * p_.in, v_step, first + start, std::min(block_tiles, count - start),
                   block, u.get(), m.get());
        }
      });
    }
  }

  int64_t channels_of(int64_t block) const {
    return std::min(block_channels, p_.out - block * block_channels);
  }

  /// v of tiles first .. first + count.
  void transform(int64_t first, int64_t count, float* v, int64_t v_step) const {
    const WinogradTiles<T>& maps = tile_maps<T>();
    for (int64_t t = 0; t < count; ++t) {
      const auto pixels = pixels_of<winograd_inputs>(grid_, p_.from, first + t, x_, p_.in, 0,
                                                     static_cast<const T*>(zeros_.get()));
      maps.input(pixels.data(), p_.in, v + t * p_.in, v_step);
    }
  }

  /// y's channels of a block from v of tiles first .. first + count.
  void multiply(const float* v, int64_t v_step, int64_t first, int64_t count, int64_t block, const float* u,
                float* m) const {
    const auto product = TESSERA_PER_ISA(resident_product_f32);
    const int64_t channel = block * block_channels, channels = channels_of(block);
    for (int64_t f = 0; f < winograd_values; ++f)
      product({.m = count,
               .n = channels,
               .k = p_.in,
               .a = v + f * v_step,
               .row = p_.in,
               .step = 1,
               .b = u + f * u_step_,
               .ldb = block_channels,
               .c = m + f * m_step,
               .ldc = block_channels,
               .accumulate = false});
    const Plane target{p_.height, p_.width, 0};
    for (int64_t t = 0; t < count; ++t) {
      const auto pixels = pixels_of<winograd_outputs>(grid_, target, first + t, y_, p_.out, channel,
                                                      static_cast<T*>(nullptr));
      tile_maps<T>().output(m + t * block_channels, m_step, channels, bias_ ? bias_ + channel : nullptr,
                            pixels.data());
    }
  }

  static constexpr int64_t m_step = block_tiles * block_channels + 16;

  const Problem& p_;
  const WeightBlocks& weights_;
  const T* x_;
  const float* bias_;
  T* y_;
  TileGrid grid_;
  int64_t blocks_, u_step_;
  Zeros<T> zeros_;
};

/// The weight's gradient: du (36, C, O) = v^T d, summed over tiles, in blocks of 64 by 32 channels.
template <class T>
class WeightGradient {
 public:
  WeightGradient(const ConvolutionGeometry& g, const T* x, const T* dy, bool accumulate, float* dw)
      : g_(g),
        x_(x),
        dy_(dy),
        dw_(dw),
        accumulate_(accumulate),
        grid_(g.batch, g.out[1], g.out[2]),
        chunk_(chunk_tiles(grid_.count(), winograd_values * (g.in_channels + g.out_channels) *
                                              static_cast<int64_t>(sizeof(float)))),
        rows_(divided_up(g.in_channels, in_block)),
        columns_(divided_up(g.out_channels, block_channels)),
        v_step_(step_for(chunk_ * in_block)),
        d_step_(step_for(chunk_ * block_channels)),
        v_(rows_ * winograd_values * v_step_),
        d_(columns_ * winograd_values * d_step_) {}

  void run() {
    const int64_t blocks = rows_ * columns_;
    // A block's 36 products are one task, unless there would be few: then each six values are one.
    const int64_t parts = blocks >= 16 ? 1 : 6;
    const bool at_once = parts == 1 && chunk_ >= grid_.count();
    const Scratch<float> sums(at_once ? 0 : blocks * block_elements);
    for (int64_t first = 0; first < grid_.count(); first += chunk_) {
      const int64_t count = std::min(chunk_, grid_.count() - first);
      transform(first, count);
      parallel_for(blocks * parts, 1, [&](int64_t begin, int64_t end) {
        const Scratch<float> own(at_once ? block_elements : 0),
            taps_rows(at_once ? in_block * taps * block_channels : 0);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t block = i / parts;
          float* const du = at_once ? own.get() : sums.get() + block * block_elements;
          const int64_t values = winograd_values / parts, from = i % parts * values;
          multiply(block, from, from + values, count, first > 0, du);
          if (at_once) finish(block, du, taps_rows.get());
        }
      });
    }
    if (at_once) return;
    parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
      const Scratch<float> taps_rows(in_block * taps * block_channels);
      for (int64_t block = begin; block < end; ++block)
        finish(block, sums.get() + block * block_elements, taps_rows.get());
    });
  }

 private:
  static constexpr int64_t in_block = 64;
  static constexpr int64_t du_step = in_block * block_channels + 16,
                           block_elements = winograd_values * du_step;

  /// v and d of a chunk, in blocks of channels.
  void transform(int64_t first, int64_t count) {
    const WinogradTiles<T>& maps = tile_maps<T>();
    const Plane from{g_.in[1], g_.in[2], g_.padding[1]}, to{g_.out[1], g_.out[2], 0};
    const Zeros<T> zeros(std::max(g_.in_channels, g_.out_channels));
    const T* const outside = zeros.get();
    parallel_for(count, 4, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        for (int64_t b = 0; b < rows_; ++b) {
          const int64_t c = b * in_block, n = std::min(in_block, g_.in_channels - c);
          const auto pixels =
              pixels_of<winograd_inputs>(grid_, from, first + t, x_, g_.in_channels, c, outside);
          maps.input(pixels.data(), n, v_.get() + b * winograd_values * v_step_ + t * in_block, v_step_);
        }
        for (int64_t b = 0; b < columns_; ++b) {
          const int64_t o = b * block_channels, n = std::min(block_channels, g_.out_channels - o);
          const auto pixels =
              pixels_of<winograd_outputs>(grid_, to, first + t, dy_, g_.out_channels, o, outside);
          maps.output_gradient(pixels.data(), n,
                               d_.get() + b * winograd_values * d_step_ + t * block_channels, d_step_);
        }
      }
    });
  }

  /// Values [begin, end) of a block of du, from `count` tiles.
  void multiply(int64_t block, int64_t begin, int64_t end, int64_t count, bool add, float* du) const {
    const int64_t row = block / columns_, column = block % columns_;
    for (int64_t f = begin; f < end; ++f) TESSERA_PER_ISA(resident_product_f32)
    ({.m = std::min(in_block, g_.in_channels - row * in_block),
      .n = std::min(block_channels, g_.out_channels - column * block_channels),
      .k = count,
      .a = v_.get() + (row * winograd_values + f) * v_step_,
      .row = 1,
      .step = in_block,
      .b = d_.get() + (column * winograd_values + f) * d_step_,
      .ldb = block_channels,
      .c = du + f * du_step,
      .ldc = block_channels,
      .accumulate = add});
  }

  /// dw of a block: its taps, and these transposed to rows of dw.
  void finish(int64_t block, const float* du, float* taps_rows) const {
    const auto transpose = TESSERA_PER_ISA(transpose_f32);
    const int64_t c0 = block / columns_ * in_block, o0 = block % columns_ * block_channels;
    const int64_t rows = std::min(in_block, g_.in_channels - c0),
                  columns = std::min(block_channels, g_.out_channels - o0);
    for (int64_t c = 0; c < rows; ++c) TESSERA_PER_ISA(winograd_weight_gradient)
    (du + c * block_channels, du_step, columns, taps_rows + c * taps * block_channels, block_channels);
    float* const to = dw_ + (o0 * g_.in_channels + c0) * taps;
    if (!accumulate_)
      return transpose(taps_rows, block_channels, rows * taps, columns, to, g_.in_channels * taps);
    for (int64_t o = 0; o < columns; ++o)
      for (int64_t i = 0; i < rows * taps; ++i)
        to[o * g_.in_channels * taps + i] += taps_rows[i * block_channels + o];
  }

  const ConvolutionGeometry& g_;
  const T *x_, *dy_;
  float* dw_;
  bool accumulate_;
  TileGrid grid_;
  int64_t chunk_, rows_, columns_, v_step_, d_step_;
  Scratch<float> v_, d_;
};

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

}  // namespace

bool winograd_takes(const ConvolutionGeometry& g) {
  const SpatialValues kernel{1, 3, 3}, ones{1, 1, 1};
  if (g.ndim != 2 || g.groups != 1 || g.kernel != kernel || g.stride != ones || g.dilation != ones)
    return false;
  if (g.padding[1] != g.padding[2] || g.padding[1] > 2) return false;
  if (g.in_channels % winograd_lanes != 0 || g.out_channels % winograd_lanes != 0) return false;
  // A tile costs 36 multiplications, each of its outputs would cost 9: at least 6 of 16 are used.
  const auto fills = [&](const SpatialValues& extent) {
    const TileGrid grid(1, extent[1], extent[2]);
    return extent[1] * extent[2] >= 6 * grid.count();
  };
  return std::min(g.in_channels, g.out_channels) >= 32 && fills(g.out) && fills(g.in);
}

void winograd(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Tensor& y) {
  with_type(x, [&]<class T>(T*) {
    const Problem problem{.in = g.in_channels,
                          .out = g.out_channels,
                          .from = {g.in[1], g.in[2], g.padding[1]},
                          .height = g.out[1],
                          .width = g.out[2],
                          .mirrored = false};
    const WeightBlocks weights{g, data_of<float>(weight), false};
    Convolution<T>(problem, weights, g.batch, data_of<T>(x), bias.defined() ? data_of<float>(bias) : nullptr,
                   data_of<T>(y))
        .run();
  });
}

void winograd_input(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight, const Tensor& dx) {
  with_type(dy, [&]<class T>(T*) {
    const Problem problem{.in = g.out_channels,
                          .out = g.in_channels,
                          .from = {g.out[1], g.out[2], 2 - g.padding[1]},
                          .height = g.in[1],
                          .width = g.in[2],
                          .mirrored = true};
    const WeightBlocks weights{g, data_of<float>(weight), true};
    Convolution<T>(problem, weights, g.batch, data_of<T>(dy), nullptr, data_of<T>(dx)).run();
  });
}

void winograd_weight_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& x,
                              bool accumulate, const Tensor& dw) {
  with_type(x, [&]<class T>(T*) {
    WeightGradient<T>(g, data_of<T>(x), data_of<T>(dy), accumulate, data_of<float>(dw)).run();
  });
}

}  // namespace tessera::kernels::cpu
