#include "tensor/cpu/convolution/convolution.h"

#include <algorithm>

#include "tensor/channels_last.h"
#include "tensor/cpu/convolution/column_products.h"
#include "tensor/cpu/convolution/row_products.h"
#include "tensor/cpu/convolution/winograd.h"
#include "tensor/cpu/elementwise/elementwise.h"

namespace tessera::kernels::cpu {
namespace {

bool is_half_type(const Tensor& x) {
  return x.dtype() == bf16 || x.dtype() == f16;
}

Tensor f32_like(const Tensor& x) {
  return empty_in_layout(is_channels_last(x), x.shape(), f32, x.device());
}

/// `from` in the dtype of `to`; on meta nothing.
void convert(const Tensor& from, const Tensor& to) {
  if (!to.is_meta()) cast(from, to);
}

/// x in f32; of a half type a copy of the same layout.
Tensor widened(const Tensor& x) {
  if (!x.defined() || !is_half_type(x)) return x;
  const Tensor wide = f32_like(x);
  convert(x, wide);
  return wide;
}

/// Calls `run(geometry, first)` for some images after the others: as many as have f32 copies of 16 MB at
/// most, and at least one. The number does not depend on that of threads.
template <class Run>
void for_image_chunks(const ConvolutionGeometry& g, const Run& run) {
  const int64_t image = std::max(g.in_channels * g.in_positions(), g.out_channels * g.positions());
  const int64_t most = std::max<int64_t>((1 << 22) / std::max<int64_t>(image, 1), 1);
  for (int64_t first = 0; first < g.batch; first += most) {
    ConvolutionGeometry part = g;
    part.batch = std::min(most, g.batch - first);
    run(part, first);
  }
}

/// Whether both tensors are channels-last and of a type that the kernels of this layout take.
bool channels_innermost_kernels(const ConvolutionGeometry& g, const Tensor& a, const Tensor& b) {
  return g.groups == 1 && a.dtype() == b.dtype() && (a.dtype() == f32 || a.dtype() == bf16) &&
         is_channels_last(a) && is_channels_last(b);
}

void channels_last_weight_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& x,
                                   bool accumulate, const Tensor& dw) {
  if (winograd_takes(g)) {
    if (!dw.is_meta()) winograd_weight_gradient(g, dy, x, accumulate, dw);
    return;
  }
  const Tensor wide = widened(dy);
  if (!dw.is_meta()) convolve_rows_weight(g, wide, x, accumulate, dw);
}

}  // namespace

void convolution(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& added, bool relu, const Tensor& y) {
  if (channels_innermost_kernels(g, x, y)) {
    const Tensor w = widened(weight), b = widened(bias);
    if (y.is_meta()) return;
    return (winograd_takes(g) ? winograd : convolve_rows)(g, x, w, b, added, relu, y);
  }
  if (!is_half_type(y)) {
    if (!y.is_meta()) convolve_columns(g, x, weight, bias, added, relu, y);
    return;
  }
  const Tensor w = widened(weight), b = widened(bias);
  for_image_chunks(g, [&](const ConvolutionGeometry& part, int64_t first) {
    const Tensor rounded = y.narrow(0, first, part.batch), wide = f32_like(rounded);
    const Tensor from = widened(x.narrow(0, first, part.batch));
    const Tensor summand = added.defined() ? widened(added.narrow(0, first, part.batch)) : added;
    if (y.is_meta()) return;
    convolve_columns(part, from, w, b, summand, relu, wide);
    convert(wide, rounded);
  });
}

void convolution_input_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight,
                                const Tensor& dx) {
  if (channels_innermost_kernels(g, dy, dx)) {
    const Tensor w = widened(weight);
    if (dx.is_meta()) return;
    return (winograd_takes(g) ? winograd_input : convolve_rows_input)(g, dy, w, dx);
  }
  if (!is_half_type(dx)) {
    if (!dx.is_meta()) convolve_columns_input(g, dy, weight, dx);
    return;
  }
  const Tensor w = widened(weight);
  for_image_chunks(g, [&](const ConvolutionGeometry& part, int64_t first) {
    const Tensor rounded = dx.narrow(0, first, part.batch), wide = f32_like(rounded);
    const Tensor from = widened(dy.narrow(0, first, part.batch));
    if (dx.is_meta()) return;
    convolve_columns_input(part, from, w, wide);
    convert(wide, rounded);
  });
}

void convolution_weight_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& x,
                                 bool accumulate, const Tensor& dw) {
  const auto gradient = [&](bool add, const Tensor& out) {
    if (channels_innermost_kernels(g, dy, x)) return channels_last_weight_gradient(g, dy, x, add, out);
    if (!is_half_type(x)) {
      if (!out.is_meta()) convolve_columns_weight(g, dy, x, add, out);
      return;
    }
    for_image_chunks(g, [&](const ConvolutionGeometry& part, int64_t first) {
      const Tensor of_y = widened(dy.narrow(0, first, part.batch));
      const Tensor of_x = widened(x.narrow(0, first, part.batch));
      if (!out.is_meta()) convolve_columns_weight(part, of_y, of_x, add || first > 0, out);
    });
  };
  if (!is_half_type(dw)) return gradient(accumulate, dw);
  const Tensor wide = accumulate ? widened(dw) : f32_like(dw);
  gradient(accumulate, wide);
  convert(wide, dw);
}

}  // namespace tessera::kernels::cpu
