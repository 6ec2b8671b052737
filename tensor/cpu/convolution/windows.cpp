#include "tensor/cpu/convolution/windows.h"

#include <cstring>

#include "tensor/cpu/convolution/columns.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain = 1 << 14;

/// A value of the same size, which is copied as it is.
template <class T>
using Copied = std::conditional_t<sizeof(T) == 2, uint16_t, T>;

template <class T>
void unfold_as(const ConvolutionGeometry& g, const Tensor& x, const Tensor& columns) {
  const ImageStrides strides = image_strides(x);
  const auto* from = static_cast<const Copied<T>*>(x.raw_data());
  auto* to = static_cast<Copied<T>*>(columns.raw_data());
  const int64_t size = g.taps() * g.positions();
  parallel_for(g.batch * g.in_channels, 1 + grain / (size + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      gather_columns(g, from, strides,
                     {i % g.in_channels, 1, i / g.in_channels * g.positions(), g.positions()}, to + i * size);
  });
}

/// One channel of an image after another, in the type of its sums.
template <class T>
void fold_as(const ConvolutionGeometry& g, const Tensor& columns, const Tensor& x) {
  using A = accumulator_of<T>;
  const T* from = static_cast<const T*>(columns.raw_data());
  T* to = static_cast<T*>(x.raw_data());
  const int64_t size = g.taps() * g.positions(), pixels = g.in_positions();
  const ImageStrides strides{0, 0, {g.in[1] * g.in[2], g.in[2], 1}};
  parallel_for(g.batch * g.in_channels, 1 + grain / (size + 1), [&](int64_t begin, int64_t end) {
    const Scratch<A> wide(size), sums(pixels);
    for (int64_t i = begin; i < end; ++i) {
      widen_contiguous(from + i * size, size, wide.get());
      std::fill_n(sums.get(), pixels, A(0));
      scatter_columns(g, wide.get(), {0, 1, 0, g.positions()}, strides, sums.get());
      narrow_contiguous(sums.get(), pixels, to + i * pixels);
    }
  });
}

}  // namespace

void unfold(const ConvolutionGeometry& g, const Tensor& x, const Tensor& columns) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) { unfold_as<T>(g, x, columns); });
}

void fold(const ConvolutionGeometry& g, const Tensor& columns, const Tensor& x) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) { fold_as<T>(g, columns, x); });
}

}  // namespace tessera::kernels::cpu
