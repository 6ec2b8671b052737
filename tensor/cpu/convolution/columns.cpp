#include "tensor/cpu/convolution/columns.h"

#include <algorithm>

#include "tensor/types/float_types.h"

namespace tessera::kernels::cpu {
namespace {

/// Positions [begin, end) of one row of an image's output, from column `column` of the block on.
struct RowRange {
  int64_t image, depth, row, begin, end, column;
};

template <class Visit>
void for_each_row_range(const ConvolutionGeometry& g, int64_t position, int64_t count, const Visit& visit) {
  const int64_t width = g.out[2], area = g.out[1] * width, all = g.out[0] * area;
  for (int64_t done = 0; done < count;) {
    const int64_t at = position + done, in_image = at % all, begin = in_image % width;
    const int64_t end = std::min(width, begin + count - done);
    visit(RowRange{at / all, in_image / area, in_image % area / width, begin, end, done});
    done += end - begin;
  }
}

/// The tap's positions of a row that lie inside x: [first, last), within [begin, end).
struct Inside {
  int64_t first, last;
};

Inside inside_of(const ConvolutionGeometry& g, int64_t shift, int64_t begin, int64_t end) {
  const int64_t stride = g.stride[2];
  const int64_t least = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const int64_t most = g.in[2] - 1 - shift;  // position * stride may be at most this
  const int64_t beyond = most < 0 ? 0 : most / stride + 1;
  const int64_t first = std::clamp(least, begin, end);
  return {first, std::clamp(beyond, first, end)};
}

/// Calls visit(row of the matrix, range of a row, its x or null, elements between windows, inside) for each
/// row range under each tap of each channel.
template <class X, class Visit>
void walk(const ConvolutionGeometry& g, X* x, const ImageStrides& s, const ColumnBlock& block,
          const Visit& visit) {
  const int64_t taps_per_row = g.kernel[2], taps_per_slice = g.kernel[1] * taps_per_row;
  for (int64_t c = 0; c < block.channels; ++c)
    for (int64_t tap = 0; tap < g.taps(); ++tap) {
      const int64_t kd = tap / taps_per_slice, kh = tap % taps_per_slice / taps_per_row;
      const int64_t shift = tap % taps_per_row * g.dilation[2] - g.padding[2];
      for_each_row_range(g, block.position, block.positions, [&](const RowRange& r) {
        const int64_t d = r.depth * g.stride[0] - g.padding[0] + kd * g.dilation[0];
        const int64_t h = r.row * g.stride[1] - g.padding[1] + kh * g.dilation[1];
        const bool outside = d < 0 || d >= g.in[0] || h < 0 || h >= g.in[1];
        const Inside in = outside ? Inside{r.end, r.end} : inside_of(g, shift, r.begin, r.end);
        X* from = in.first == in.last
                      ? nullptr
                      : x + r.image * s.sample + (block.channel + c) * s.channel + d * s.spatial[0] +
                            h * s.spatial[1] + (in.first * g.stride[2] + shift) * s.spatial[2];
        visit(c * g.taps() + tap, r, from, in);
      });
    }
}

}  // namespace

ImageStrides image_strides(const Tensor& x) {
  ImageStrides s{x.strides()[0], x.strides()[1], {}};
  for (int i = 0; i + 2 < x.ndim(); ++i) s.spatial[5 - x.ndim() + i] = x.strides()[i + 2];
  return s;
}

template <class T>
void gather_columns(const ConvolutionGeometry& g, const T* x, const ImageStrides& strides,
                    const ColumnBlock& block, T* columns) {
  const int64_t step = g.stride[2] * strides.spatial[2];
  walk(g, x, strides, block, [&](int64_t row, const RowRange& r, const T* from, const Inside& in) {
    T* to = columns + row * block.positions + r.column - r.begin;
    std::fill(to + r.begin, to + in.first, T{});
    const int64_t count = in.last - in.first;
    if (step == 1)
      std::copy_n(from, count, to + in.first);
    else
      for (int64_t i = 0; i < count; ++i) to[in.first + i] = from[i * step];
    std::fill(to + in.last, to + r.end, T{});
  });
}

template <class T>
void scatter_columns(const ConvolutionGeometry& g, const T* columns, const ColumnBlock& block,
                     const ImageStrides& strides, T* x) {
  const int64_t step = g.stride[2] * strides.spatial[2];
  walk(g, x, strides, block, [&](int64_t row, const RowRange& r, T* into, const Inside& in) {
    const T* from = columns + row * block.positions + r.column - r.begin + in.first;
    for (int64_t i = 0; i < in.last - in.first; ++i) into[i * step] += from[i];
  });
}

template void gather_columns(const ConvolutionGeometry&, const double*, const ImageStrides&,
                             const ColumnBlock&, double*);
template void gather_columns(const ConvolutionGeometry&, const float*, const ImageStrides&,
                             const ColumnBlock&, float*);
template void gather_columns(const ConvolutionGeometry&, const uint16_t*, const ImageStrides&,
                             const ColumnBlock&, uint16_t*);
template void scatter_columns(const ConvolutionGeometry&, const double*, const ColumnBlock&,
                              const ImageStrides&, double*);
template void scatter_columns(const ConvolutionGeometry&, const float*, const ColumnBlock&,
                              const ImageStrides&, float*);

}  // namespace tessera::kernels::cpu
