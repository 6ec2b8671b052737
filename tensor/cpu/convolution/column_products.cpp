// y (C_out, positions) = weight (C_out, rows) columns (rows, positions), for each group. A block of
// positions, which may span images, is gathered into scratch memory of its thread, where it stays in the
// cache while it is multiplied. dx is the transpose: columns = weight^T dy, scattered. dW = dy columns^T.

#include "tensor/cpu/convolution/column_products.h"

#include <algorithm>
#include <cstring>

#include "tensor/channels_last.h"
#include "tensor/cpu/convolution/columns.h"
#include "tensor/cpu/gemm/gemm_eigen.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/matmul.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

template <class T>
auto gemm_of() {
  if constexpr (std::is_same_v<T, double>)
    return TESSERA_PER_ISA(gemm_eigen_f64);
  else
    return &gemm_f32;
}

int64_t divided_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Positions of a block: as many as let its columns take about a megabyte.
int64_t block_width(const ConvolutionGeometry& g, int64_t rows) {
  constexpr int64_t elements = 1 << 18, step = 16;
  const int64_t all = g.batch * g.positions();
  return std::min(std::max<int64_t>(all, 1),
                  std::clamp<int64_t>(elements / (rows + 1) / step * step, 64, 4096));
}

/// The tasks that threads share: enough for any usual number of them.
constexpr int64_t least_tasks = 16;

/// A block of a tensor like y, (channels of a group, positions): row-major with rows `leading` apart, or,
/// `transposed`, positions `leading` apart.
template <class T>
struct OutputBlock {
  T* data;
  int64_t leading;
  bool transposed;
};

/// How y (contiguous or channels_last) is seen by blocks.
template <class T>
class OutputBlocks {
 public:
  OutputBlocks(const ConvolutionGeometry& g, const Tensor& y)
      : g_(g), data_(static_cast<T*>(y.raw_data())), transposed_(is_channels_last(y)) {}

  /// Whether the block has no row of its own in memory: it spans images of a contiguous y.
  bool is_split(int64_t position, int64_t positions) const {
    return !transposed_ && position % g_.positions() + positions > g_.positions();
  }
  /// A block that is not split.
  OutputBlock<T> block(int64_t group, int64_t position) const {
    if (transposed_)
      return {data_ + position * g_.out_channels + group * g_.group_out(), g_.out_channels, true};
    return {image(group, position) + position % g_.positions(), g_.positions(), false};
  }
  /// A split block from or to `tile`, (channels of the group, positions).
  template <class Copy>
  void for_each_image(int64_t group, int64_t position, int64_t positions, T* tile, const Copy& copy) const {
    for (int64_t done = 0; done < positions;) {
      const int64_t start = (position + done) % g_.positions();
      const int64_t count = std::min(positions - done, g_.positions() - start);
      T* row = image(group, position + done) + start;
      for (int64_t c = 0; c < g_.group_out(); ++c)
        copy(row + c * g_.positions(), tile + c * positions + done, count);
      done += count;
    }
  }
  /// The block of y, packed into `tile` where it is split.
  OutputBlock<T> read(int64_t group, int64_t position, int64_t positions, T* tile) const {
    if (!is_split(position, positions)) return block(group, position);
    for_each_image(group, position, positions, tile,
                   [](const T* from, T* to, int64_t count) { std::copy_n(from, count, to); });
    return {tile, positions, false};
  }

 private:
  T* image(int64_t group, int64_t position) const {
    return data_ + (position / g_.positions() * g_.out_channels + group * g_.group_out()) * g_.positions();
  }

  const ConvolutionGeometry& g_;
  T* data_;
  bool transposed_;
};

/// Fills the block with the bias of each channel.
template <class T>
void fill_bias(const OutputBlock<T>& block, const T* bias, int64_t channels, int64_t positions) {
  if (block.transposed)
    for (int64_t p = 0; p < positions; ++p) std::copy_n(bias, channels, block.data + p * block.leading);
  else
    for (int64_t c = 0; c < channels; ++c) std::fill_n(block.data + c * block.leading, positions, bias[c]);
}

/// block = added, another one in its form, or `block` itself, plus the bias of each channel unless it is
/// null.
template <class T>
void fill_added(const OutputBlock<T>& block, const OutputBlock<T>& added, const T* bias, int64_t channels,
                int64_t positions) {
  const int64_t rows = block.transposed ? positions : channels, columns = channels + positions - rows;
  for (int64_t i = 0; i < rows; ++i) {
    T* const to = block.data + i * block.leading;
    const T* const from = added.data + i * added.leading;
    for (int64_t j = 0; j < columns; ++j) to[j] = from[j] + (bias ? bias[block.transposed ? j : i] : T(0));
  }
}

/// Values below 0 become 0; NaN stays.
template <class T>
void relu_in_place(const OutputBlock<T>& block, int64_t channels, int64_t positions) {
  const int64_t rows = block.transposed ? positions : channels, columns = channels + positions - rows;
  for (int64_t i = 0; i < rows; ++i) {
    T* const row = block.data + i * block.leading;
    for (int64_t j = 0; j < columns; ++j) row[j] = row[j] < T(0) ? T(0) : row[j];
  }
}

/// block (channels, positions) = weight (channels, rows) columns (rows, positions).
template <class T>
Gemm<T> block_product(const OutputBlock<T>& block, const T* weight, const T* columns, int64_t channels,
                      int64_t positions, int64_t rows, bool accumulate) {
  Gemm<T> gemm{.m = channels,
               .n = positions,
               .k = rows,
               .a = weight,
               .lda = rows,
               .a_transposed = false,
               .b = columns,
               .ldb = positions,
               .b_transposed = false,
               .c = block.data,
               .ldc = block.leading,
               .accumulate = accumulate};
  if (block.transposed) {
    std::swap(gemm.m, gemm.n);
    std::swap(gemm.a, gemm.b);
    std::swap(gemm.lda, gemm.ldb);
    gemm.a_transposed = gemm.b_transposed = true;
  }
  return gemm;
}

template <class T>
void forward(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
             const Tensor& added, bool relu, const Tensor& y) {
  const int64_t all = g.batch * g.positions(), rows = g.rows(), channels = g.group_out();
  const int64_t width = block_width(g, rows), blocks = divided_up(all, width);
  const OutputBlocks<T> outputs(g, y), summands(g, added.defined() ? added : y);
  const ImageStrides strides = image_strides(x);
  const T* const input = static_cast<const T*>(x.raw_data());
  const T* const weights = static_cast<const T*>(weight.raw_data());
  const T* const of_channels = bias.defined() ? static_cast<const T*>(bias.raw_data()) : nullptr;
  const auto gemm = gemm_of<T>();
  parallel_for(
      g.groups * blocks, 1 + (1 << 17) / (width * rows * channels + 1), [&](int64_t begin, int64_t end) {
        const Scratch<T> columns(rows * width), tile(channels * width);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t group = i / blocks, position = i % blocks * width;
          const int64_t positions = std::min(width, all - position);
          gather_columns(g, input, strides, {group * g.group_in(), g.group_in(), position, positions},
                         columns.get());
          const bool split = outputs.is_split(position, positions);
          const OutputBlock<T> block =
              split ? OutputBlock<T>{tile.get(), positions, false} : outputs.block(group, position);
          const T* const own = of_channels ? of_channels + group * channels : nullptr;
          if (added.defined())
            fill_added(block, summands.read(group, position, positions, tile.get()), own, channels,
                       positions);
          else if (own)
            fill_bias(block, own, channels, positions);
          gemm(block_product(block, weights + group * channels * rows, columns.get(), channels, positions,
                             rows, own || added.defined()));
          if (relu) relu_in_place(block, channels, positions);
          if (split)
            outputs.for_each_image(group, position, positions, tile.get(),
                                   [](T* to, const T* from, int64_t count) { std::copy_n(from, count, to); });
        }
      });
}

/// The number of channel blocks of a group, where `others` tasks are there already.
int64_t channel_blocks(const ConvolutionGeometry& g, int64_t others) {
  return std::clamp<int64_t>(divided_up(least_tasks, std::max<int64_t>(others, 1)), 1, g.group_in());
}

/// Sets dx, which has no gaps in memory, to 0.
void fill_zero(const Tensor& dx) {
  char* const to = static_cast<char*>(dx.raw_data());
  parallel_for(dx.nbytes(), 1 << 18,
               [&](int64_t begin, int64_t end) { std::memset(to + begin, 0, end - begin); });
}

/// Writes the columns of dx that come from the block: weight^T dy.
template <class T>
Gemm<T> transposed_product(const OutputBlock<T>& dy, const T* weight, T* columns,
                           const ConvolutionGeometry& g, int64_t rows, int64_t positions) {
  return {.m = rows,
          .n = positions,
          .k = g.group_out(),
          .a = weight,
          .lda = g.rows(),
          .a_transposed = true,
          .b = dy.data,
          .ldb = dy.leading,
          .b_transposed = dy.transposed,
          .c = columns,
          .ldc = positions,
          .accumulate = false};
}

/// A task has some images and some channels of dx, so that no other task adds to its elements.
template <class T>
void input_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight, const Tensor& dx) {
  const int64_t images = std::clamp<int64_t>(divided_up(64, g.positions()), 1, g.batch);
  const int64_t chunks = divided_up(g.batch, images), cuts = channel_blocks(g, chunks * g.groups);
  const int64_t cut = divided_up(g.group_in(), cuts), width = block_width(g, cut * g.taps());
  const OutputBlocks<T> outputs(g, dy);
  const ImageStrides strides = image_strides(dx);
  T* const result = static_cast<T*>(dx.raw_data());
  const T* const weights = static_cast<const T*>(weight.raw_data());
  const auto gemm = gemm_of<T>();
  parallel_for(chunks * g.groups * cuts, 1, [&](int64_t begin, int64_t end) {
    const Scratch<T> columns(cut * g.taps() * width), tile(g.group_out() * width);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t chunk = i / (g.groups * cuts), group = i / cuts % g.groups, first = i % cuts * cut;
      const int64_t channels = std::min(cut, g.group_in() - first);
      const int64_t stop = std::min(g.batch, (chunk + 1) * images) * g.positions();
      for (int64_t position = chunk * images * g.positions(); channels > 0 && position < stop;
           position += width) {
        const int64_t positions = std::min(width, stop - position);
        const OutputBlock<T> block = outputs.read(group, position, positions, tile.get());
        gemm(transposed_product(block, weights + group * g.group_out() * g.rows() + first * g.taps(),
                                columns.get(), g, channels * g.taps(), positions));
        scatter_columns(g, columns.get(), {group * g.group_in() + first, channels, position, positions},
                        strides, result);
      }
    }
  });
}

/// dw (C_out, rows from `row` on) += dy columns^T.
template <class T>
Gemm<T> weight_product(const OutputBlock<T>& dy, const T* columns, T* dw, const ConvolutionGeometry& g,
                       int64_t rows, int64_t positions, bool accumulate) {
  return {.m = g.group_out(),
          .n = rows,
          .k = positions,
          .a = dy.data,
          .lda = dy.leading,
          .a_transposed = dy.transposed,
          .b = columns,
          .ldb = positions,
          .b_transposed = true,
          .c = dw,
          .ldc = g.rows(),
          .accumulate = accumulate};
}

/// dw += the sums of the parts after the first, in order.
template <class T>
void add_parts(const T* parts, int64_t count, int64_t elements, T* dw) {
  parallel_for(elements, 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t part = 0; part < count; ++part)
      for (int64_t i = begin; i < end; ++i) dw[i] += parts[part * elements + i];
  });
}

/// A task has some channels of a group. Where these are few, each part of the positions is a task too, with
/// a sum of its own; dw itself is that of the first part.
template <class T>
void weight_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& x, bool accumulate,
                     const Tensor& dw) {
  const int64_t all = g.batch * g.positions(), cuts = channel_blocks(g, g.groups);
  const int64_t cut = divided_up(g.group_in(), cuts), width = block_width(g, cut * g.taps());
  const int64_t blocks = divided_up(all, width), elements = dw.numel();
  const int64_t parts = std::clamp<int64_t>(least_tasks / (g.groups * cuts), 1, std::min<int64_t>(blocks, 8));
  const OutputBlocks<T> outputs(g, dy);
  const ImageStrides strides = image_strides(x);
  const T* const input = static_cast<const T*>(x.raw_data());
  T* const result = static_cast<T*>(dw.raw_data());
  const Scratch<T> sums((parts - 1) * elements);
  const auto gemm = gemm_of<T>();
  parallel_for(parts * g.groups * cuts, 1, [&](int64_t begin, int64_t end) {
    const Scratch<T> columns(cut * g.taps() * width), tile(g.group_out() * width);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = i / (g.groups * cuts), group = i / cuts % g.groups, first = i % cuts * cut;
      const int64_t channels = std::min(cut, g.group_in() - first);
      T* const sum = (part == 0 ? result : sums.get() + (part - 1) * elements) +
                     group * g.group_out() * g.rows() + first * g.taps();
      bool add = accumulate && part == 0;
      for (int64_t b = blocks * part / parts; channels > 0 && b < blocks * (part + 1) / parts; ++b) {
        const int64_t position = b * width, positions = std::min(width, all - position);
        gather_columns(g, input, strides, {group * g.group_in() + first, channels, position, positions},
                       columns.get());
        gemm(weight_product(outputs.read(group, position, positions, tile.get()), columns.get(), sum, g,
                            channels * g.taps(), positions, add));
        add = true;
      }
    }
  });
  add_parts(sums.get(), parts - 1, elements, result);
}

}  // namespace

void convolve_columns(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Tensor& added, bool relu, const Tensor& y) {
  if (y.dtype() == f64) return forward<double>(g, x, weight, bias, added, relu, y);
  forward<float>(g, x, weight, bias, added, relu, y);
}

void convolve_columns_input(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight,
                            const Tensor& dx) {
  fill_zero(dx);
  if (dx.dtype() == f64) return input_gradient<double>(g, dy, weight, dx);
  input_gradient<float>(g, dy, weight, dx);
}

void convolve_columns_weight(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& x, bool accumulate,
                             const Tensor& dw) {
  if (dw.dtype() == f64) return weight_gradient<double>(g, dy, x, accumulate, dw);
  weight_gradient<float>(g, dy, x, accumulate, dw);
}

}  // namespace tessera::kernels::cpu
