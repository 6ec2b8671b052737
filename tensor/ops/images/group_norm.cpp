#include "tensor/ops/images/group_norm.h"

#include "tensor/batched/rules.h"
#include "tensor/cpu/images/group_norm.h"
#include "tensor/cuda/images/group_norm.h"
#include "tensor/ops/kernel.h"
#include "tensor/ops/reduction.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(double, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      const Tensor&)>
    forward_kernel{"group_norm", &kernels::cpu::group_norm, TESSERA_CUDA_KERNEL(kernels::cuda::group_norm),
                   batched::one_by_one<&kernels::cpu::group_norm>};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      const Tensor&, const Tensor&, const Tensor&)>
    backward_kernel{"group_norm_backward", &kernels::cpu::group_norm_backward,
                    TESSERA_CUDA_KERNEL(kernels::cuda::group_norm_backward),
                    batched::one_by_one<&kernels::cpu::group_norm_backward>};

Tensor contiguous(const Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : tensor;
}

DType statistics_dtype(const Tensor& x) {
  return x.dtype() == f64 ? f64 : f32;
}

void check_per_channel(const char* name, const Tensor& value, const Tensor& x) {
  if (!value.defined()) return;
  require<ShapeError>(value.ndim() == 1 && value.size(0) == x.size(1), "group_norm: expected a ", name,
                      " of shape (", x.size(1), ",), one value for each channel of x ", x.shape(), ", got ",
                      value.shape());
  require<DTypeError>(value.dtype() == statistics_dtype(x) || value.dtype() == x.dtype(),
                      "group_norm: expected a ", name, " of dtype ", x.dtype(), " for x ", describe(x),
                      ", got ", describe(value));
}

}  // namespace

GroupNormed group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                       double epsilon) {
  const char* where = "group_norm";
  Device device = common_device(where, {&x});
  for (const Tensor* operand : {&weight, &bias})
    if (operand->defined()) device = common_device(where, {&x, operand});
  require_floating(where, x);
  require<ShapeError>(x.ndim() >= 2, where, ": expected x (N, C, ...), got ", describe(x));
  require<ShapeError>(groups >= 1 && x.size(1) % groups == 0, where, ": expected groups that divide the ",
                      x.size(1), " channels, got ", groups);
  check_per_channel("weight", weight, x);
  check_per_channel("bias", bias, x);
  const Shape per_group{x.size(0), groups};
  const GroupNormed out{Tensor::empty(x.shape(), x.dtype(), device),
                        Tensor::zeros(per_group, statistics_dtype(x), device),
                        Tensor::zeros(per_group, statistics_dtype(x), device)};
  if (x.numel() > 0)
    forward_kernel(device, epsilon, x.contiguous(), contiguous(weight), contiguous(bias), out.mean, out.rstd,
                   out.y);
  return out;
}

GroupNormGradients group_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                       const Tensor& mean, const Tensor& rstd, bool wants_x,
                                       bool wants_weight, bool wants_bias) {
  const char* where = "group_norm_backward";
  const Device device = common_device(where, {&dy, &x, &mean, &rstd});
  require_same_dtype(where, {&x, &dy});
  require<ShapeError>(dy.shape() == x.shape(), where, ": expected a gradient of x's shape ", x.shape(),
                      ", got ", dy.shape());
  const Shape per_channel{x.size(0), x.size(1)};
  // Of each sample; on every device, so that a kernel always has an output.
  const Tensor along = Tensor::zeros(per_channel, statistics_dtype(x), device);
  const Tensor sums = Tensor::zeros(per_channel, statistics_dtype(x), device);
  GroupNormGradients out;
  const Tensor dx = wants_x ? Tensor::empty(x.shape(), x.dtype(), device) : Tensor();
  if (x.numel() > 0)
    backward_kernel(device, dy.contiguous(), x.contiguous(), contiguous(weight), mean.contiguous(),
                    rstd.contiguous(), along, sums, dx);
  out.x = dx;
  if (wants_weight) out.weight = sum(along, {0});
  if (wants_bias) out.bias = sum(sums, {0});
  return out;
}

}  // namespace tessera::ops
