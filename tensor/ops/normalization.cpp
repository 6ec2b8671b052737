#include "tensor/ops/normalization.h"

#include "tensor/cpu/normalization.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, double, const Normalized&)> forward_kernel{
    "layer_norm", &kernels::cpu::normalization, nullptr};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      const NormalizationGradients&)>
    backward_kernel{"normalization_backward", &kernels::cpu::normalization_backward, nullptr};

/// The first (leading) or the rest (normalized) of x's extents.
Shape part_of(const Shape& shape, int64_t begin, int64_t end) {
  return Shape(std::span<const int64_t>(shape.begin() + begin, shape.begin() + end));
}

void check_operand(const char* name, const char* operand, const Tensor& tensor, const Tensor& x,
                   int64_t axes) {
  if (!tensor.defined()) return;
  const Shape normalized = part_of(x.shape(), x.rank() - axes, x.rank());
  require<ShapeError>(tensor.shape() == normalized, name, ": x is ", x.shape(), ", so its ", operand, " is ",
                      normalized, "; got ", tensor.shape());
  require_same_dtype(name, {&x, &tensor});
  common_device(name, {&x, &tensor});
}

Normalized normalize(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                     int64_t axes, bool centered) {
  const Device device = common_device(name, {&x});
  require_floating(name, x);
  require<ShapeError>(axes >= 1 && axes <= x.rank(), name, ": cannot normalize the last ", axes,
                      " dimensions of ", describe(x));
  check_operand(name, "weight", weight, x, axes);
  check_operand(name, "bias", bias, x, axes);
  const Shape leading = part_of(x.shape(), 0, x.rank() - axes);
  const DType statistics = x.dtype() == f64 ? f64 : f32;
  Normalized result{Tensor::empty_like(x), {}, Tensor::empty(leading, statistics, device)};
  if (centered) result.mean = Tensor::empty(leading, statistics, device);
  forward_kernel(device, x.contiguous(), weight.defined() ? weight.contiguous() : weight,
                 bias.defined() ? bias.contiguous() : bias, eps, result);
  return result;
}

}  // namespace

Normalized layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, int64_t axes) {
  return normalize("layer_norm", x, weight, bias, eps, axes, true);
}

Normalized rms_norm(const Tensor& x, const Tensor& weight, double eps, int64_t axes) {
  return normalize("rms_norm", x, weight, {}, eps, axes, false);
}

NormalizationGradients normalization_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                              const Tensor& mean, const Tensor& rstd, int64_t axes,
                                              NormalizationWants wants) {
  const char* name = "normalization_backward";
  const Device device = common_device(name, {&dy, &x, &rstd});
  require_same_dtype(name, {&x, &dy});
  require<ShapeError>(dy.shape() == x.shape(), name, ": x is ", x.shape(), ", the gradient ", dy.shape());
  check_operand(name, "weight", weight, x, axes);
  const Shape normalized = part_of(x.shape(), x.rank() - axes, x.rank());
  NormalizationGradients gradients;
  if (wants.x) gradients.x = Tensor::empty(x.shape(), x.dtype(), device);
  const DType sums = x.dtype() == f64 ? f64 : f32;
  if (wants.weight) gradients.weight = Tensor::empty(normalized, sums, device);
  if (wants.bias) gradients.bias = Tensor::empty(normalized, sums, device);
  backward_kernel(device, dy.contiguous(), x.contiguous(), weight.defined() ? weight.contiguous() : weight,
                  mean, rstd, gradients);
  return gradients;
}

}  // namespace tessera::ops
