#include "tensor/ops/layers/normalization.h"

#include "tensor/batched/rules.h"
#include "tensor/cpu/layers/dropout.h"
#include "tensor/cpu/layers/normalization.h"
#include "tensor/cuda/layers/normalization.h"
#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"

namespace tessera {

namespace ops {

int32_t samples_in(const NormalizationCall& c) {
  return std::max({batched::samples_in(c.x), batched::samples_in(c.weight), batched::samples_in(c.bias)});
}
NormalizationCall of_sample(const NormalizationCall& c, int64_t i) {
  using batched::of_sample;
  return {of_sample(c.x, i),      of_sample(c.delta, i), c.mask,
          of_sample(c.weight, i), of_sample(c.bias, i),  c.eps};
}
int32_t samples_in(const NormalizationBackwardCall& c) {
  return batched::samples_in(c.dy);
}
NormalizationBackwardCall of_sample(const NormalizationBackwardCall& c, int64_t i) {
  using batched::of_sample;
  return {of_sample(c.dy, i),   of_sample(c.dsum, i), c.mask, of_sample(c.x, i), of_sample(c.weight, i),
          of_sample(c.mean, i), of_sample(c.rstd, i)};
}

Normalized of_sample(const Normalized& n, int64_t i) {
  using batched::of_sample;
  return {of_sample(n.y, i), of_sample(n.mean, i), of_sample(n.rstd, i), of_sample(n.sum, i)};
}
NormalizationGradients of_sample(const NormalizationGradients& g, int64_t i) {
  using batched::of_sample;
  return {of_sample(g.x, i), of_sample(g.weight, i), of_sample(g.bias, i), of_sample(g.delta, i)};
}

namespace {

constexpr Kernel<void(const NormalizationCall&, const Normalized&)> forward_kernel{
    "layer_norm", &kernels::cpu::normalization, TESSERA_CUDA_KERNEL(kernels::cuda::normalization),
    batched::one_by_one<&kernels::cpu::normalization>};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      const Tensor&)>
    recompute_kernel{"recompute_normalized", &kernels::cpu::recompute_normalized,
                     TESSERA_CUDA_KERNEL(kernels::cuda::recompute_normalized),
                     batched::one_by_one<&kernels::cpu::recompute_normalized>};
constexpr Kernel<void(const NormalizationBackwardCall&, const NormalizationGradients&)> backward_kernel{
    "normalization_backward", &kernels::cpu::normalization_backward,
    TESSERA_CUDA_KERNEL(kernels::cuda::normalization_backward),
    batched::one_by_one<&kernels::cpu::normalization_backward>};

/// Extents begin..end of x: the leading ones or the normalized ones.
Shape extents_of(const Shape& shape, int64_t begin, int64_t end) {
  return Shape(std::span<const int64_t>(shape.begin() + begin, shape.begin() + end));
}

void check_operand(const char* name, const char* operand, const Tensor& tensor, const Tensor& x,
                   int64_t axes) {
  if (!tensor.defined()) return;
  const Shape normalized = extents_of(x.shape(), x.ndim() - axes, x.ndim());
  require<ShapeError>(tensor.shape() == normalized, name, ": expected a ", operand, " of shape ", normalized,
                      " for x ", x.shape(), ", got ", tensor.shape());
  require_same_dtype(name, {&x, &tensor});
  common_device(name, {&x, &tensor});
}

Tensor contiguous(const Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : tensor;
}

/// The kernels' description of the mask, null where it drops nothing.
class MaskRows {
 public:
  MaskRows(const char* name, const DropoutMask& mask, const Tensor& x, int64_t axes)
      : drops_(mask.probability != 0) {
    if (!drops_) return;
    require<ShapeError>(x.ndim() > axes, name, ": dropout needs a first dimension of samples, but x ",
                        x.shape(), " is normalized over all of its ", axes, " dimensions");
    rows_ = dropout_rows(name, x, mask);
  }
  const DropoutRows* get() const { return drops_ ? &rows_ : nullptr; }

 private:
  bool drops_;
  DropoutRows rows_;
};

struct Norm {
  const char* name;
  bool centered;
};

Normalized normalize(Norm norm, const Tensor& x, const Tensor& delta, const DropoutMask& mask,
                     const Tensor& weight, const Tensor& bias, double eps, int64_t axes) {
  const char* name = norm.name;
  Device device = delta.defined() ? common_device(name, {&x, &delta}) : common_device(name, {&x});
  for (const Tensor* operand : {&weight, &bias})
    if (operand->defined() && operand->device().is_batched()) device = common_device(name, {&x, operand});
  require_floating(name, x);
  require<ShapeError>(axes >= 1 && axes <= x.ndim(), name, ": cannot normalize the last ", axes,
                      " dimensions of ", describe(x));
  if (delta.defined()) {
    require_same_dtype(name, {&x, &delta});
    require<ShapeError>(delta.shape() == x.shape(), name, ": expected a delta of x's shape ", x.shape(),
                        ", got ", delta.shape());
  }
  check_operand(name, "weight", weight, x, axes);
  check_operand(name, "bias", bias, x, axes);
  const Shape leading = extents_of(x.shape(), 0, x.ndim() - axes);
  const DType statistics = x.dtype() == f64 ? f64 : f32;
  Normalized result{
      Tensor::empty(x.shape(), x.dtype(), device), {}, Tensor::empty(leading, statistics, device)};
  if (norm.centered) result.mean = Tensor::empty(leading, statistics, device);
  if (delta.defined()) result.sum = Tensor::empty(x.shape(), x.dtype(), device);
  const MaskRows rows(name, delta.defined() ? mask : DropoutMask(), x, axes);
  forward_kernel(device,
                 {x.contiguous(), contiguous(delta), rows.get(), contiguous(weight), contiguous(bias), eps},
                 result);
  return result;
}

}  // namespace

Normalized layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, int64_t axes) {
  return normalize({"layer_norm", true}, x, {}, {}, weight, bias, eps, axes);
}

Normalized rms_norm(const Tensor& x, const Tensor& weight, double eps, int64_t axes) {
  return normalize({"rms_norm", false}, x, {}, {}, weight, {}, eps, axes);
}

Normalized add_layer_norm(const Tensor& x, const Tensor& delta, const DropoutMask& mask, const Tensor& weight,
                          const Tensor& bias, double eps, int64_t axes) {
  common_device("add_layer_norm", {&x, &delta});
  return normalize({"add_layer_norm", true}, x, delta, mask, weight, bias, eps, axes);
}

Normalized add_rms_norm(const Tensor& x, const Tensor& delta, const DropoutMask& mask, const Tensor& weight,
                        double eps, int64_t axes) {
  common_device("add_rms_norm", {&x, &delta});
  return normalize({"add_rms_norm", false}, x, delta, mask, weight, {}, eps, axes);
}

Tensor recompute_normalized(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                            const Tensor& rstd) {
  const Device device = common_device("recompute_normalized", {&x, &rstd});
  Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  recompute_kernel(device, x.contiguous(), contiguous(weight), contiguous(bias), mean, rstd, y);
  return y;
}

NormalizationGradients normalization_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                              const Tensor& mean, const Tensor& rstd, int64_t axes,
                                              NormalizationNeedsGrad needs_grad) {
  return add_normalization_backward({}, dy, x, {}, weight, mean, rstd, axes, needs_grad);
}

NormalizationGradients add_normalization_backward(const Tensor& dsum, const Tensor& dy, const Tensor& sum,
                                                  const DropoutMask& mask, const Tensor& weight,
                                                  const Tensor& mean, const Tensor& rstd, int64_t axes,
                                                  NormalizationNeedsGrad needs_grad) {
  const char* name = "normalization_backward";
  const Device device = common_device(name, {&dy, &sum, &rstd});
  for (const Tensor& gradient : {dy, dsum}) {
    if (!gradient.defined()) continue;
    require_same_dtype(name, {&sum, &gradient});
    require<ShapeError>(gradient.shape() == sum.shape(), name, ": expected a gradient of x's shape ",
                        sum.shape(), ", got ", gradient.shape());
  }
  check_operand(name, "weight", weight, sum, axes);
  const bool overwrites =
      needs_grad.overwrite_x && sum.device() == device;  // all samples of a vmap may share it
  if (overwrites) require_no_overlap(name, sum, {&dy, &dsum, &weight, &mean, &rstd});
  const Shape normalized = extents_of(sum.shape(), sum.ndim() - axes, sum.ndim());
  const bool drops = mask.probability != 0;
  NormalizationGradients gradients;
  if (needs_grad.x || (needs_grad.delta && !drops))
    gradients.x = overwrites ? sum : Tensor::empty(sum.shape(), sum.dtype(), device);
  if (needs_grad.delta && drops) gradients.delta = Tensor::empty(sum.shape(), sum.dtype(), device);
  const DType sums = sum.dtype() == f64 ? f64 : f32;
  if (needs_grad.weight) gradients.weight = Tensor::empty(normalized, sums, device);
  if (needs_grad.bias) gradients.bias = Tensor::empty(normalized, sums, device);
  const MaskRows rows(name, needs_grad.delta ? mask : DropoutMask(), sum, axes);
  backward_kernel(
      device,
      {dy.contiguous(), contiguous(dsum), rows.get(), sum.contiguous(), contiguous(weight), mean, rstd},
      gradients);
  if (overwrites) sum.bump_version();
  if (needs_grad.delta && !drops) gradients.delta = gradients.x;
  return gradients;
}

}  // namespace ops
}  // namespace tessera
