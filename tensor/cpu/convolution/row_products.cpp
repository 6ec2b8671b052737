// With channels innermost, a window's values under one tap are C contiguous values of x, so a row of columns
// (taps, C) is a few copies. Legend: P positions of a block, R = taps C elements of a row.
//
//     y (P, O) = rows (P, R) w (R, O)      dw (R, O) = rows^T dy      rows = dy w^T, added to dx
//
// A block of rows stays in the second-level cache of its thread while it is multiplied with all of the
// weights.
#include "tensor/cpu/convolution/row_products.h"

#include <algorithm>
#include <cstring>

#include "tensor/cpu/gemm/resident_product.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/transpose.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

using Geometry = ConvolutionGeometry;

constexpr int64_t panel = 32;  ///< columns of a product

int64_t divided_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Positions of a block: as many as let its rows take about 300 kilobytes.
int64_t block_positions(int64_t row_elements) {
  return std::clamp<int64_t>((75 << 10) / row_elements / 8 * 8, 16, 256);
}

/// A range of the taps, row-major, and of the channels of x.
struct RowRange {
  int64_t first_tap, taps, channel, channels;
  int64_t elements() const { return taps * channels; }
};

/// Calls visit(the element of x, or -1 in the padding; column of the row) for each tap under `position`.
template <class Visit>
void for_each_tap(const Geometry& g, const RowRange& r, int64_t position, const Visit& visit) {
  const int64_t image = position / g.positions(), at = position % g.positions();
  const int64_t start[3] = {at / (g.out[1] * g.out[2]) * g.stride[0] - g.padding[0],
                            at / g.out[2] % g.out[1] * g.stride[1] - g.padding[1],
                            at % g.out[2] * g.stride[2] - g.padding[2]};
  int64_t kw = r.first_tap % g.kernel[2], kh = r.first_tap / g.kernel[2] % g.kernel[1],
          kd = r.first_tap / (g.kernel[1] * g.kernel[2]);
  for (int64_t t = 0; t < r.taps; ++t) {
    const int64_t d = start[0] + kd * g.dilation[0], h = start[1] + kh * g.dilation[1],
                  w = start[2] + kw * g.dilation[2];
    if (++kw == g.kernel[2]) {
      kw = 0;
      if (++kh == g.kernel[1]) kh = 0, ++kd;
    }
    const bool inside = d >= 0 && d < g.in[0] && h >= 0 && h < g.in[1] && w >= 0 && w < g.in[2];
    const int64_t pixel = ((image * g.in[0] + d) * g.in[1] + h) * g.in[2] + w;
    visit(inside ? pixel * g.in_channels + r.channel : -1, t * r.channels);
  }
}

/// rows (count, elements) of the positions from `first` on.
template <class T>
void gather_rows(const Geometry& g, const RowRange& r, const T* x, int64_t first, int64_t count,
                 float* rows) {
  for (int64_t p = 0; p < count; ++p) {
    float* const row = rows + p * r.elements();
    for_each_tap(g, r, first + p, [&](int64_t from, int64_t column) {
      if (from < 0)
        std::memset(row + column, 0, r.channels * sizeof(float));
      else if (r.channels < 16)
        for (int64_t c = 0; c < r.channels; ++c) row[column + c] = widen<float>(x[from + c]);
      else
        widen_contiguous(x + from, r.channels, row + column);
    });
  }
}

/// Adds rows to the elements of x that they come from.
void add_rows(const Geometry& g, const RowRange& r, const float* rows, int64_t first, int64_t count,
              float* x) {
  for (int64_t p = 0; p < count; ++p) {
    const float* const row = rows + p * r.elements();
    for_each_tap(g, r, first + p, [&](int64_t to, int64_t column) {
      if (to < 0) return;
      TESSERA_INDEPENDENT_ITERATIONS
      for (int64_t c = 0; c < r.channels; ++c) x[to + c] += row[column + c];
    });
  }
}

/// f32 values as T: `row` is where they are computed, x itself for f32.
template <class T>
constexpr bool is_f32 = std::is_same_v<T, float>;

/// The weight (O, C, taps) in panels (taps, C, 32) of 32 of the O.
void pack_by_output(const Geometry& g, const float* weight, float* panels) {
  const int64_t rows = g.rows(), taps = g.taps();
  parallel_for(divided_up(g.out_channels, panel), 1, [&](int64_t begin, int64_t end) {
    const Scratch<float> transposed(rows * panel);
    for (int64_t b = begin; b < end; ++b) {
      const int64_t n = std::min(panel, g.out_channels - b * panel);
      TESSERA_PER_ISA(transpose_f32)(weight + b * panel * rows, rows, n, rows, transposed.get(), panel);
      float* const to = panels + b * rows * panel;
      for (int64_t c = 0; c < g.in_channels; ++c)
        for (int64_t tap = 0; tap < taps; ++tap)
          std::memcpy(to + (tap * g.in_channels + c) * panel, transposed.get() + (c * taps + tap) * panel,
                      n * sizeof(float));
    }
  });
}

/// The weight in panels (O, 32) of 32 of the C: those of a tap follow each other, tap by tap.
void pack_by_input(const Geometry& g, const float* weight, float* panels) {
  const int64_t taps = g.taps(), blocks = divided_up(g.in_channels, panel), size = g.out_channels * panel;
  parallel_for(g.out_channels, 16, [&](int64_t begin, int64_t end) {
    const Scratch<float> transposed(taps * panel);
    for (int64_t o = begin; o < end; ++o)
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t n = std::min(panel, g.in_channels - b * panel);
        TESSERA_PER_ISA(transpose_f32)
        (weight + (o * g.in_channels + b * panel) * taps, taps, n, taps, transposed.get(), panel);
        for (int64_t tap = 0; tap < taps; ++tap)
          std::memcpy(panels + (tap * blocks + b) * size + o * panel, transposed.get() + tap * panel,
                      n * sizeof(float));
      }
  });
}

/// What a product is added to: rows (count, outs) of the bias of each channel and of `added`, not both null.
template <class T>
void begin_sums(const float* bias, const T* added, int64_t count, int64_t outs, float* sums) {
  if (!added) {
    for (int64_t p = 0; p < count; ++p) std::copy_n(bias, outs, sums + p * outs);
    return;
  }
  widen_contiguous(added, count * outs, sums);
  for (int64_t p = 0; bias && p < count; ++p) {
    float* const row = sums + p * outs;
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t o = 0; o < outs; ++o) row[o] += bias[o];
  }
}

/// Values below 0 in `columns` columns of rows that are `row` apart become 0; NaN stays.
void relu_in_place(float* values, int64_t count, int64_t columns, int64_t row) {
  for (int64_t p = 0; p < count; ++p) {
    float* const at = values + p * row;
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < columns; ++i) at[i] = at[i] < 0.0f ? 0.0f : at[i];
  }
}

template <class T>
void forward(const Geometry& g, const T* x, const float* weight, const float* bias, const T* added, bool relu,
             T* y) {
  const int64_t rows = g.rows(), all = g.batch * g.positions(), width = block_positions(rows);
  const int64_t outs = g.out_channels, blocks = divided_up(outs, panel);
  const Scratch<float> panels(blocks * rows * panel + vector_elements<float>);
  pack_by_output(g, weight, panels.get());
  const RowRange range{0, g.taps(), 0, g.in_channels};
  parallel_for(divided_up(all, width), 1, [&](int64_t begin, int64_t end) {
    const Scratch<float> block(width * rows), wide(is_f32<T> ? 0 : width * outs);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * width, count = std::min(width, all - first);
      gather_rows(g, range, x, first, count, block.get());
      float* result;
      if constexpr (is_f32<T>)
        result = y + first * outs;
      else
        result = wide.get();
      const bool accumulate = bias || added;
      if (accumulate) begin_sums(bias, added ? added + first * outs : nullptr, count, outs, result);
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t columns = std::min(panel, outs - b * panel);
        TESSERA_PER_ISA(resident_product_f32)
        ({.m = count,
          .n = columns,
          .k = rows,
          .a = block.get(),
          .row = rows,
          .step = 1,
          .b = panels.get() + b * rows * panel,
          .ldb = panel,
          .c = result + b * panel,
          .ldc = outs,
          .accumulate = accumulate});
        if (relu) relu_in_place(result + b * panel, count, columns, outs);  // in the first-level cache
      }
      if constexpr (!is_f32<T>) narrow_contiguous(result, count * outs, y + first * outs);
    }
  });
}

/// A task has whole images, so that no other task adds to its elements.
template <class T>
void input_gradient(const Geometry& g, const T* dy, const float* weight, T* dx) {
  const int64_t outs = g.out_channels, rows = g.rows(), blocks = divided_up(g.in_channels, panel);
  const Scratch<float> panels(blocks * g.taps() * outs * panel + vector_elements<float>);
  pack_by_input(g, weight, panels.get());
  const int64_t images = std::clamp<int64_t>(divided_up(64, g.positions()), 1, g.batch);
  const int64_t width = block_positions(rows), image_elements = g.in_positions() * g.in_channels;
  const RowRange range{0, g.taps(), 0, g.in_channels};
  parallel_for(divided_up(g.batch, images), 1, [&](int64_t begin, int64_t end) {
    const Scratch<float> block(width * rows), wide_dy(is_f32<T> ? 0 : width * outs),
        wide_dx(is_f32<T> ? 0 : images * image_elements);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i * images, count = std::min(images, g.batch - image);
      const int64_t stop = (image + count) * g.positions();
      float* sums;  // as if of all images
      if constexpr (is_f32<T>)
        sums = dx;
      else
        sums = wide_dx.get() - image * image_elements;
      std::memset(sums + image * image_elements, 0, count * image_elements * sizeof(float));
      for (int64_t first = image * g.positions(); first < stop; first += width) {
        const int64_t positions = std::min(width, stop - first);
        const float* from;
        if constexpr (is_f32<T>) {
          from = dy + first * outs;
        } else {
          widen_contiguous(dy + first * outs, positions * outs, wide_dy.get());
          from = wide_dy.get();
        }
        for (int64_t b = 0; b < blocks * g.taps(); ++b) TESSERA_PER_ISA(resident_product_f32)
        ({.m = positions,
          .n = std::min(panel, g.in_channels - b % blocks * panel),
          .k = outs,
          .a = from,
          .row = outs,
          .step = 1,
          .b = panels.get() + b * outs * panel,
          .ldb = panel,
          .c = block.get() + b / blocks * g.in_channels + b % blocks * panel,
          .ldc = rows,
          .accumulate = false});
        add_rows(g, range, block.get(), first, positions, sums);
      }
      if constexpr (!is_f32<T>)
        narrow_contiguous(wide_dx.get(), count * image_elements, dx + image * image_elements);
    }
  });
}

/// A task has 64 of the O, some channels of x and one row of the kernel, and all positions.
template <class T>
void weight_gradient(const Geometry& g, const float* dy, const T* x, bool accumulate, float* dw) {
  constexpr int64_t most_channels = 64, panels = 2;
  const int64_t outs = g.out_channels, all = g.batch * g.positions();
  const int64_t columns = divided_up(outs, panels * panel), cuts = divided_up(g.in_channels, most_channels);
  const int64_t kernel_rows = g.kernel[0] * g.kernel[1], taps = g.kernel[2];
  parallel_for(columns * cuts * kernel_rows, 1, [&](int64_t begin, int64_t end) {
    const int64_t largest = taps * std::min(most_channels, g.in_channels), width = block_positions(largest);
    const Scratch<float> rows(width * largest), sums(panels * largest * panel),
        copy(width * panel + vector_elements<float>);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t o = i / (cuts * kernel_rows) * panels * panel, n = std::min(panels * panel, outs - o);
      const int64_t channel = i / kernel_rows % cuts * most_channels, kernel_row = i % kernel_rows;
      const RowRange range{kernel_row * taps, taps, channel,
                           std::min(most_channels, g.in_channels - channel)};
      for (int64_t first = 0; first < all; first += width) {
        const int64_t count = std::min(width, all - first);
        gather_rows(g, range, x, first, count, rows.get());
        for (int64_t j = 0; j < n; j += panel) {
          const int64_t here = std::min(panel, n - j);
          for (int64_t p = 0; p < count; ++p)
            std::memcpy(copy.get() + p * panel, dy + (first + p) * outs + o + j, here * sizeof(float));
          TESSERA_PER_ISA(resident_product_f32)
          ({.m = range.elements(),
            .n = here,
            .k = count,
            .a = rows.get(),
            .row = 1,
            .step = range.elements(),
            .b = copy.get(),
            .ldb = panel,
            .c = sums.get() + j * largest,
            .ldc = panel,
            .accumulate = first > 0});
        }
      }
      for (int64_t j = 0; j < n; ++j)
        for (int64_t c = 0; c < range.channels; ++c) {
          float* const to = dw + ((o + j) * g.in_channels + channel + c) * g.taps() + range.first_tap;
          for (int64_t t = 0; t < taps; ++t) {
            const float value =
                sums.get()[j / panel * panel * largest + (t * range.channels + c) * panel + j % panel];
            to[t] = accumulate ? to[t] + value : value;
          }
        }
    }
  });
}

template <class T>
T* data_of(const Tensor& x) {
  return static_cast<T*>(x.raw_data());
}

}  // namespace

void convolve_rows(const Geometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Tensor& added, bool relu, const Tensor& y) {
  const float *w = data_of<float>(weight), *b = bias.defined() ? data_of<float>(bias) : nullptr;
  const auto run = [&]<class T>(T* result) {
    forward<T>(g, data_of<T>(x), w, b, added.defined() ? data_of<T>(added) : nullptr, relu, result);
  };
  if (x.dtype() == f32) return run(data_of<float>(y));
  run(data_of<bfloat16>(y));
}

void convolve_rows_input(const Geometry& g, const Tensor& dy, const Tensor& weight, const Tensor& dx) {
  const float* w = data_of<float>(weight);
  if (dy.dtype() == f32) return input_gradient(g, data_of<float>(dy), w, data_of<float>(dx));
  input_gradient(g, data_of<bfloat16>(dy), w, data_of<bfloat16>(dx));
}

void convolve_rows_weight(const Geometry& g, const Tensor& dy, const Tensor& x, bool accumulate,
                          const Tensor& dw) {
  const float* gradient = data_of<float>(dy);
  float* const result = data_of<float>(dw);
  if (x.dtype() == f32) return weight_gradient(g, gradient, data_of<float>(x), accumulate, result);
  weight_gradient(g, gradient, data_of<bfloat16>(x), accumulate, result);
}

}  // namespace tessera::kernels::cpu
