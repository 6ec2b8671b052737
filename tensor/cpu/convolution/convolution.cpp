#include "tensor/cpu/convolution/convolution.h"

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

/// x in f32; of a half type a copy of the same layout.
Tensor widened(const Tensor& x) {
  if (!x.defined() || !is_half_type(x)) return x;
  const Tensor wide = f32_like(x);
  cast(x, wide);
  return wide;
}

/// Whether both tensors are channels-last and of a type that the kernels of this layout take.
bool channels_innermost_kernels(const ConvolutionGeometry& g, const Tensor& a, const Tensor& b) {
  return g.groups == 1 && a.dtype() == b.dtype() && (a.dtype() == f32 || a.dtype() == bf16) &&
         is_channels_last(a) && is_channels_last(b);
}

void channels_last_weight_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& x,
                                   bool accumulate, const Tensor& dw) {
  if (winograd_takes(g)) return winograd_weight_gradient(g, dy, x, accumulate, dw);
  convolve_rows_weight(g, widened(dy), x, accumulate, dw);
}

}  // namespace

void convolution(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& y) {
  if (channels_innermost_kernels(g, x, y))
    return (winograd_takes(g) ? winograd : convolve_rows)(g, x, widened(weight), widened(bias), y);
  if (!is_half_type(y)) return convolve_columns(g, x, weight, bias, y);
  const Tensor wide = f32_like(y);
  convolve_columns(g, widened(x), widened(weight), widened(bias), wide);
  cast(wide, y);
}

void convolution_input_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight,
                                const Tensor& dx) {
  if (channels_innermost_kernels(g, dy, dx))
    return (winograd_takes(g) ? winograd_input : convolve_rows_input)(g, dy, widened(weight), dx);
  if (!is_half_type(dx)) return convolve_columns_input(g, dy, weight, dx);
  const Tensor wide = f32_like(dx);
  convolve_columns_input(g, widened(dy), widened(weight), wide);
  cast(wide, dx);
}

void convolution_weight_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& x,
                                 bool accumulate, const Tensor& dw) {
  const bool innermost = channels_innermost_kernels(g, dy, x);
  const auto gradient = [&](bool add, const Tensor& out) {
    if (innermost) return channels_last_weight_gradient(g, dy, x, add, out);
    convolve_columns_weight(g, widened(dy), widened(x), add, out);
  };
  if (!is_half_type(dw)) return gradient(accumulate, dw);
  const Tensor wide = accumulate ? widened(dw) : f32_like(dw);
  gradient(accumulate, wide);
  cast(wide, dw);
}

}  // namespace tessera::kernels::cpu
