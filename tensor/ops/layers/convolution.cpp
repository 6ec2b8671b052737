#include "tensor/ops/layers/convolution.h"

#include "tensor/batched/rules.h"
#include "tensor/channels_last.h"
#include "tensor/cpu/convolution/convolution.h"
#include "tensor/cpu/convolution/windows.h"
#include "tensor/cuda/convolution/convolution.h"
#include "tensor/cuda/convolution/windows.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"
#include "tensor/profile/cost.h"

namespace tessera::ops {
namespace {

using Geometry = ConvolutionGeometry;

constexpr Kernel<void(const Geometry&, const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Tensor& added, bool relu, const Tensor& y)>
    forward_kernel{"convolution", &kernels::cpu::convolution, TESSERA_CUDA_KERNEL(kernels::cuda::convolution),
                   batched::one_by_one<&kernels::cpu::convolution>};
constexpr Kernel<void(const Geometry&, const Tensor& dy, const Tensor& weight, const Tensor& dx)>
    input_kernel{"convolution_input_gradient", &kernels::cpu::convolution_input_gradient,
                 TESSERA_CUDA_KERNEL(kernels::cuda::convolution_input_gradient),
                 batched::one_by_one<&kernels::cpu::convolution_input_gradient>};
constexpr Kernel<void(const Geometry&, const Tensor& dy, const Tensor& x, bool accumulate, const Tensor& dw)>
    weight_kernel{"convolution_weight_gradient", &kernels::cpu::convolution_weight_gradient,
                  TESSERA_CUDA_KERNEL(kernels::cuda::convolution_weight_gradient),
                  batched::one_by_one<&kernels::cpu::convolution_weight_gradient>};
constexpr Kernel<void(const Geometry&, const Tensor& x, const Tensor& columns)> unfold_kernel{
    "unfold", &kernels::cpu::unfold, TESSERA_CUDA_KERNEL(kernels::cuda::unfold),
    batched::one_by_one<&kernels::cpu::unfold>};
constexpr Kernel<void(const Geometry&, const Tensor& columns, const Tensor& x)> fold_kernel{
    "fold", &kernels::cpu::fold, TESSERA_CUDA_KERNEL(kernels::cuda::fold),
    batched::one_by_one<&kernels::cpu::fold>};

/// x as a batch of one image, where it is one image.
Tensor as_batch(const Tensor& x, int ndim) {
  return x.ndim() == ndim + 1 ? x.unsqueeze(0) : x;
}
/// y in the form of x.
Tensor as_given(const Tensor& y, const Tensor& x, int ndim) {
  return x.ndim() == ndim + 1 ? y.squeeze(0) : y;
}

/// A tensor like y, in a layout that kernels take.
Tensor dense(const Tensor& dy) {
  return dy.is_contiguous() || is_channels_last(dy) ? dy : dy.contiguous();
}

Device device_of(const char* name, const Tensor& a, const Tensor& b, const Tensor& bias,
                 const Tensor& added = {}) {
  const Tensor &c = bias.defined() ? bias : a, &d = added.defined() ? added : a;
  return common_device(name, {&a, &b, &c, &d});
}

void check_shape(const char* name, const char* what, const Tensor& tensor, const Shape& expected) {
  require<ShapeError>(tensor.shape() == expected, name, ": expected ", what, " of shape ", expected, ", got ",
                      describe(tensor));
}

/// Adds a value for each channel.
void add_bias(const Tensor& y, const Tensor& bias) {
  if (!bias.defined()) return;
  Shape shape = Shape::filled(y.ndim() - 1, 1);
  shape[0] = bias.numel();
  add_(y, bias.reshape(shape));
}

Tensor forward(const char* name, int ndim, const Tensor& x, const Tensor& weight, const Tensor& bias,
               const Shape& stride, const ConvPadding& padding, const Shape& dilation, int64_t groups) {
  common_device(name, {&x, &weight});
  const Tensor batch = as_batch(x, ndim);
  const Geometry g = convolution_geometry(name, ndim, batch, weight, bias, stride, padding, dilation, groups);
  return as_given(convolution(g, batch, weight, bias), x, ndim);
}

Tensor transposed(const char* name, int ndim, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Shape& stride, const Shape& padding, const Shape& output_padding, int64_t groups,
                  const Shape& dilation) {
  common_device(name, {&x, &weight});
  const Tensor batch = as_batch(x, ndim);
  const Geometry g =
      transposed_geometry(name, ndim, batch, weight, bias, stride, padding, output_padding, groups, dilation);
  return as_given(convolution_input_backward(g, batch, weight, bias), x, ndim);
}

}  // namespace

Tensor convolution(const Geometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Tensor& added, bool with_relu) {
  const Device device = device_of("convolution", x, weight, bias, added);
  require_same_dtype("convolution", {&x, &weight});
  check_shape("convolution", "x", x, g.x_shape());
  check_shape("convolution", "a weight", weight, g.weight_shape());
  if (added.defined()) {
    require_same_dtype("convolution", {&x, &added});
    check_shape("convolution", "an added tensor", added, g.y_shape());
  }
  const Tensor y = empty_in_layout(is_channels_last(x), g.y_shape(), x.dtype(), device);
  count_flops(2 * g.multiply_adds());
  if (y.numel() == 0) return y;
  const Tensor summand = added.defined() ? in_layout(is_channels_last(y), added) : added;
  if (device.is_meta()) {  // a plan counts what the kernel allocates
    kernels::cpu::convolution(g, x, weight, bias, summand, with_relu, y);
    return y;
  }
  if (x.numel() == 0) {
    y.zero();
    add_bias(y, bias);
    if (added.defined()) add_(y, added);
    return with_relu ? relu(y) : y;
  }
  forward_kernel(device, g, x, weight.contiguous(), bias.defined() ? bias.contiguous() : bias, summand,
                 with_relu, y);
  return y;
}

Tensor convolution_input_backward(const Geometry& g, const Tensor& dy, const Tensor& weight,
                                  const Tensor& bias) {
  const char* const name = "convolution_input_backward";
  const Device device = device_of(name, dy, weight, bias);
  require_same_dtype(name, {&dy, &weight});
  check_shape(name, "a gradient of y", dy, g.y_shape());
  check_shape(name, "a weight", weight, g.weight_shape());
  const Tensor dx = empty_in_layout(is_channels_last(dy), g.x_shape(), dy.dtype(), device);
  count_flops(2 * g.multiply_adds());
  if (dx.numel() == 0) return dx;
  if (device.is_meta()) {
    kernels::cpu::convolution_input_gradient(g, dy, weight, dx);
    return dx;
  }
  if (dy.numel() == 0)
    dx.zero();
  else
    input_kernel(device, g, dense(dy), weight.contiguous(), dx);
  add_bias(dx, bias);
  return dx;
}

void convolution_weight_backward(const Geometry& g, const Tensor& dy, const Tensor& x, const Tensor& dw,
                                 bool accumulate) {
  const char* const name = "convolution_weight_backward";
  const Device device = common_device(name, {&dy, &x, &dw});
  require_same_dtype(name, {&dy, &x});
  check_shape(name, "a gradient of y", dy, g.y_shape());
  check_shape(name, "x", x, g.x_shape());
  check_shape(name, "a gradient of the weight", dw, g.weight_shape());
  require<DTypeError>(dw.dtype() == dy.dtype() || (dw.dtype() == f32 && size_of(dy.dtype()) == 2), name,
                      ": expected a gradient of dtype ", dy.dtype(), " or f32, got ", describe(dw));
  require<ValueError>(dw.is_contiguous(), name,
                      ": expected a contiguous gradient of the weight, got strides ", dw.strides());
  require_no_overlap(name, dw, {&dy, &x});
  count_flops(2 * g.multiply_adds());
  if (dw.numel() == 0) return;
  if (device.is_meta()) return kernels::cpu::convolution_weight_gradient(g, dy, x, accumulate, dw);
  if (dy.numel() > 0 && x.numel() > 0)
    weight_kernel(device, g, dense(dy), x, accumulate, dw);
  else if (!accumulate)
    dw.zero();
  dw.bump_version();
}

#define TESSERA_CONVOLUTION(n)                                                                              \
  Tensor conv##n##d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& stride,         \
                    const ConvPadding& padding, const Shape& dilation, int64_t groups) {                    \
    return forward("conv" #n "d", n, x, weight, bias, stride, padding, dilation, groups);                   \
  }                                                                                                         \
  Tensor conv_transpose##n##d(const Tensor& x, const Tensor& weight, const Tensor& bias,                    \
                              const Shape& stride, const Shape& padding, const Shape& output_padding,       \
                              int64_t groups, const Shape& dilation) {                                      \
    return transposed("conv_transpose" #n "d", n, x, weight, bias, stride, padding, output_padding, groups, \
                      dilation);                                                                            \
  }
TESSERA_CONVOLUTION(1)
TESSERA_CONVOLUTION(2)
TESSERA_CONVOLUTION(3)
#undef TESSERA_CONVOLUTION

Tensor unfold_windows(const Geometry& g, const Tensor& x) {
  const Device device = common_device("unfold", {&x});
  check_shape("unfold", "x", x, g.x_shape());
  const Tensor columns = Tensor::empty({g.batch, g.in_channels * g.taps(), g.positions()}, x.dtype(), device);
  if (columns.numel() > 0) unfold_kernel(device, g, x, columns);
  return columns;
}

Tensor fold_windows(const Geometry& g, const Tensor& columns) {
  const Device device = common_device("fold", {&columns});
  check_shape("fold", "columns", columns, {g.batch, g.in_channels * g.taps(), g.positions()});
  const Tensor x = Tensor::empty(g.x_shape(), columns.dtype(), device);
  if (x.numel() > 0) fold_kernel(device, g, columns.contiguous(), x);
  return x;
}

Tensor unfold(const Tensor& x, const Shape& kernel_size, const Shape& dilation, const Shape& padding,
              const Shape& stride) {
  common_device("unfold", {&x});
  const Tensor batch = as_batch(x, 2);
  return as_given(unfold_windows(unfold_geometry(batch, kernel_size, dilation, padding, stride), batch), x,
                  2);
}

Tensor fold(const Tensor& x, const Shape& output_size, const Shape& kernel_size, const Shape& dilation,
            const Shape& padding, const Shape& stride) {
  common_device("fold", {&x});
  const Tensor batch = x.ndim() == 2 ? x.unsqueeze(0) : x;
  const Tensor y =
      fold_windows(fold_geometry(batch, output_size, kernel_size, dilation, padding, stride), batch);
  return x.ndim() == 2 ? y.squeeze(0) : y;
}

}  // namespace tessera::ops
