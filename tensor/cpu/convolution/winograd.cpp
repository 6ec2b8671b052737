// Tiles of 4 x 4 outputs are taken in chunks, so that transformed values fit the caches. For each chunk, x's
// tiles are transformed once; then a task computes 32 channels of some tiles: 36 products (tiles, C) (C, 32)
// of blocks that stay in its second-level cache, and the tiles' way back. Weights are transformed by the task
// that multiplies with them: 36 values for 9 would cost more to store than to compute.
#include "tensor/cpu/convolution/winograd.h"

#include "tensor/cpu/convolution/winograd_grid.h"
#include "tensor/cpu/gemm/resident_product.h"
#include "tensor/cpu/transpose.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

using namespace winograd_grid;

/// A convolution from `in` channels to `out`: forward, or the gradient by x, which is one with mirrored taps.
struct Problem {
  int64_t in, out;
  Plane from;             ///< what is read
  int64_t height, width;  ///< of what is written
  bool mirrored;
  bool relu = false;  ///< whether results below 0 become 0
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
              const T* added, T* y)
      : p_(p),
        weights_(weights),
        x_(x),
        bias_(bias),
        added_(added),
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
      std::array<const T*, winograd_outputs * winograd_outputs> added{};
      if (added_)
        added = pixels_of<winograd_outputs>(grid_, target, first + t, added_, p_.out, channel,
                                            static_cast<const T*>(nullptr));
      tile_maps<T>().output(m + t * block_channels, m_step, channels, bias_ ? bias_ + channel : nullptr,
                            added_ ? added.data() : nullptr, p_.relu, pixels.data());
    }
  }

  static constexpr int64_t m_step = block_tiles * block_channels + 16;

  const Problem& p_;
  const WeightBlocks& weights_;
  const T* x_;
  const float* bias_;
  const T* added_;
  T* y_;
  TileGrid grid_;
  int64_t blocks_, u_step_;
  Zeros<T> zeros_;
};

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
              const Tensor& added, bool relu, const Tensor& y) {
  with_type(x, [&]<class T>(T*) {
    const Problem problem{.in = g.in_channels,
                          .out = g.out_channels,
                          .from = {g.in[1], g.in[2], g.padding[1]},
                          .height = g.out[1],
                          .width = g.out[2],
                          .mirrored = false,
                          .relu = relu};
    const WeightBlocks weights{g, data_of<float>(weight), false};
    Convolution<T>(problem, weights, g.batch, data_of<T>(x), bias.defined() ? data_of<float>(bias) : nullptr,
                   added.defined() ? data_of<T>(added) : nullptr, data_of<T>(y))
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
    Convolution<T>(problem, weights, g.batch, data_of<T>(dy), nullptr, nullptr, data_of<T>(dx)).run();
  });
}

}  // namespace tessera::kernels::cpu
