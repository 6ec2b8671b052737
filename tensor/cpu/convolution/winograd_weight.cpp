// The weight's gradient of Winograd's convolution: for each of the 36 values of a tile a product over tiles.
#include "tensor/cpu/convolution/winograd.h"
#include "tensor/cpu/convolution/winograd_grid.h"
#include "tensor/cpu/gemm/resident_product.h"
#include "tensor/cpu/transpose.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

using namespace winograd_grid;

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
        rows_(divided_up(g.in_channels, in_block)),
        columns_(divided_up(g.out_channels, block_channels)),
        zeros_(std::max(g.in_channels, g.out_channels)) {}

  void run() const {
    constexpr int64_t few_bytes = 700 << 10;
    blocks() * block_elements* static_cast<int64_t>(sizeof(float)) <= few_bytes ? run_by_tiles()
                                                                                : run_by_channels();
  }

 private:
  static constexpr int64_t in_block = 64;
  static constexpr int64_t du_step = in_block * block_channels + 16,
                           block_elements = winograd_values * du_step;

  /// v and d of some tiles, in blocks of channels.
  struct Transformed {
    int64_t v_step, d_step;
    Scratch<float> v, d;
    Transformed(const WeightGradient& w, int64_t tiles)
        : v_step(step_for(tiles * in_block)),
          d_step(step_for(tiles * block_channels)),
          v(w.rows_ * winograd_values * v_step),
          d(w.columns_ * winograd_values * d_step) {}
  };

  int64_t blocks() const { return rows_ * columns_; }

  /// Where weights are few: each sixteenth of the tiles has a sum of its own, and its task takes 32 tiles at
  /// a time through all steps, in its second-level cache.
  void run_by_tiles() const {
    constexpr int64_t parts = 16, some_tiles = 32;
    const int64_t tiles = grid_.count(), elements = blocks() * block_elements;
    const Scratch<float> sums(parts * elements);
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      const Transformed some(*this, some_tiles);
      for (int64_t part = begin; part < end; ++part) {
        float* const sum = sums.get() + part * elements;
        const int64_t start = tiles * part / parts, stop = tiles * (part + 1) / parts;
        if (start == stop) std::memset(sum, 0, elements * sizeof(float));
        for (int64_t first = start; first < stop; first += some_tiles) {
          const int64_t count = std::min(some_tiles, stop - first);
          transform(some, first, 0, count);
          for (int64_t block = 0; block < blocks(); ++block)
            multiply(some, block, 0, winograd_values, count, first > start, sum + block * block_elements);
        }
      }
    });
    parallel_for(elements, 1 << 13, [&](int64_t begin, int64_t end) {
      for (int64_t part = 1; part < parts; ++part)
        for (int64_t i = begin; i < end; ++i) sums.get()[i] += sums.get()[part * elements + i];
    });
    finish_all(sums.get());
  }

  /// Else chunks of tiles are transformed by all threads; then a task has a block of du.
  void run_by_channels() const {
    const int64_t tiles = grid_.count();
    const int64_t chunk = chunk_tiles(
        tiles, winograd_values * (g_.in_channels + g_.out_channels) * static_cast<int64_t>(sizeof(float)));
    // A block's 36 products are one task, unless there would be few: then each six values are one.
    const int64_t parts = blocks() >= 16 ? 1 : 6;
    const bool at_once = parts == 1 && chunk >= tiles;
    const Scratch<float> sums(at_once ? 0 : blocks() * block_elements);
    const Transformed some(*this, chunk);
    for (int64_t first = 0; first < tiles; first += chunk) {
      const int64_t count = std::min(chunk, tiles - first);
      parallel_for(count, 4,
                   [&](int64_t begin, int64_t end) { transform(some, first + begin, begin, end - begin); });
      parallel_for(blocks() * parts, 1, [&](int64_t begin, int64_t end) {
        const Scratch<float> own(at_once ? block_elements : 0),
            taps_rows(at_once ? in_block * taps * block_channels : 0);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t block = i / parts;
          float* const du = at_once ? own.get() : sums.get() + block * block_elements;
          const int64_t values = winograd_values / parts, from = i % parts * values;
          multiply(some, block, from, from + values, count, first > 0, du);
          if (at_once) finish(block, du, taps_rows.get());
        }
      });
    }
    if (!at_once) finish_all(sums.get());
  }

  /// v and d of tiles first .. first + count, written as those from tile `to` on.
  void transform(const Transformed& some, int64_t first, int64_t to, int64_t count) const {
    const WinogradTiles<T>& maps = tile_maps<T>();
    const Plane in{g_.in[1], g_.in[2], g_.padding[1]}, out{g_.out[1], g_.out[2], 0};
    const T* const outside = zeros_.get();
    for (int64_t t = 0; t < count; ++t) {
      for (int64_t b = 0; b < rows_; ++b) {
        const int64_t c = b * in_block, n = std::min(in_block, g_.in_channels - c);
        const auto pixels = pixels_of<winograd_inputs>(grid_, in, first + t, x_, g_.in_channels, c, outside);
        maps.input(pixels.data(), n, some.v.get() + b * winograd_values * some.v_step + (to + t) * in_block,
                   some.v_step);
      }
      for (int64_t b = 0; b < columns_; ++b) {
        const int64_t o = b * block_channels, n = std::min(block_channels, g_.out_channels - o);
        const auto pixels =
            pixels_of<winograd_outputs>(grid_, out, first + t, dy_, g_.out_channels, o, outside);
        maps.output_gradient(pixels.data(), n,
                             some.d.get() + b * winograd_values * some.d_step + (to + t) * block_channels,
                             some.d_step);
      }
    }
  }

  /// Values [begin, end) of a block of du, from `count` tiles.
  void multiply(const Transformed& some, int64_t block, int64_t begin, int64_t end, int64_t count, bool add,
                float* du) const {
    const auto product = TESSERA_PER_ISA(resident_product_f32);
    const int64_t row = block / columns_, column = block % columns_;
    for (int64_t f = begin; f < end; ++f)
      product({.m = std::min(in_block, g_.in_channels - row * in_block),
               .n = std::min(block_channels, g_.out_channels - column * block_channels),
               .k = count,
               .a = some.v.get() + (row * winograd_values + f) * some.v_step,
               .row = 1,
               .step = in_block,
               .b = some.d.get() + (column * winograd_values + f) * some.d_step,
               .ldb = block_channels,
               .c = du + f * du_step,
               .ldc = block_channels,
               .accumulate = add});
  }

  void finish_all(const float* sums) const {
    parallel_for(blocks(), 1, [&](int64_t begin, int64_t end) {
      const Scratch<float> taps_rows(in_block * taps * block_channels);
      for (int64_t block = begin; block < end; ++block)
        finish(block, sums + block * block_elements, taps_rows.get());
    });
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
  int64_t rows_, columns_;
  Zeros<T> zeros_;
};

}  // namespace

void winograd_weight_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& x,
                              bool accumulate, const Tensor& dw) {
  with_type(x, [&]<class T>(T*) {
    WeightGradient<T>(g, data_of<T>(x), data_of<T>(dy), accumulate, data_of<float>(dw)).run();
  });
}

}  // namespace tessera::kernels::cpu
