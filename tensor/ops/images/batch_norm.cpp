#include "tensor/ops/images/batch_norm.h"

#include "tensor/channels_last.h"
#include "tensor/cpu/images/batch_norm.h"
#include "tensor/cuda/images/batch_norm.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const BatchNormCall&, const BatchNormed&)> forward_kernel{
    "batch_norm", &kernels::cpu::batch_norm, TESSERA_CUDA_KERNEL(kernels::cuda::batch_norm)};
constexpr Kernel<void(const BatchNormBackwardCall&, const BatchNormGradients&)> backward_kernel{
    "batch_norm_backward", &kernels::cpu::batch_norm_backward,
    TESSERA_CUDA_KERNEL(kernels::cuda::batch_norm_backward)};

Tensor contiguous(const Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : tensor;
}

/// x as kernels take it: in channels-last layout where it has that, else contiguous.
Tensor dense(const Tensor& x) {
  return is_channels_last(x) ? x : x.contiguous();
}
Tensor empty_like(const Tensor& x) {
  return empty_in_layout(is_channels_last(x), x.shape(), x.dtype(), x.device());
}

DType statistics_dtype(const Tensor& x) {
  return x.dtype() == f64 ? f64 : f32;
}

Tensor per_channel(const Tensor& x, Device device) {
  return Tensor::empty({x.shape()[1]}, statistics_dtype(x), device);
}

void check_per_channel(const char* where, const char* name, const Tensor& value, const Tensor& x,
                       bool is_statistic = false) {
  if (!value.defined()) return;
  require<ShapeError>(value.ndim() == 1 && value.shape()[0] == x.shape()[1], where, ": expected a ", name,
                      " of shape (", x.shape()[1], ",), one value for each channel of x ", x.shape(),
                      ", got ", value.shape());
  require<DTypeError>(value.dtype() == statistics_dtype(x) || (!is_statistic && value.dtype() == x.dtype()),
                      where, ": expected a ", name, " of dtype ", statistics_dtype(x), " for x ", describe(x),
                      ", got ", describe(value));
  common_device(where, {&x, &value});
}

/// Checks x (N, C, ...), weight and bias; the device of all.
Device check(const char* where, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  Device device = common_device(where, {&x});
  for (const Tensor* operand : {&weight, &bias})
    if (operand->defined()) device = common_device(where, {&x, operand});
  require_floating(where, x);
  require<ShapeError>(x.ndim() >= 2, where, ": expected x (N, C, ...), got ", describe(x));
  check_per_channel(where, "weight", weight, x);
  check_per_channel(where, "bias", bias, x);
  return device;
}

void require_several_values(const Tensor& x) {
  const int64_t channels = x.shape()[1], values = channels == 0 ? 2 : x.numel() / channels;
  require<ValueError>(values > 1, "batch_norm: expected more than 1 value per channel in training, got ",
                      values, "; x is ", describe(x));
}

/// A tensor like x, which is in channels-last layout.
void check_like(const char* where, const char* name, const Tensor& tensor, const Tensor& x) {
  if (!tensor.defined()) return;
  common_device(where, {&x, &tensor});
  require_same_dtype(where, {&x, &tensor});
  require<ShapeError>(tensor.shape() == x.shape(), where, ": expected ", name, " of x's shape ", x.shape(),
                      ", got ", tensor.shape());
  require<ValueError>(is_channels_last(x) && is_channels_last(tensor), where, ": expected x and ", name,
                      " in channels-last layout, got strides ", x.strides(), " and ", tensor.strides());
}

BatchNormed run(const Tensor& x, const Tensor& weight, const Tensor& bias, const BatchNormSettings& settings,
                bool with_y, const Tensor& added = {}) {
  const Device device = check("batch_norm", x, weight, bias);
  check_like("batch_norm", "an added tensor", added, x);
  BatchNormed out{{}, per_channel(x, device), per_channel(x, device), per_channel(x, device)};
  if (with_y) out.y = empty_like(x);
  forward_kernel(device,
                 {.x = dense(x),
                  .weight = contiguous(weight),
                  .bias = contiguous(bias),
                  .mean = {},
                  .rstd = {},
                  .epsilon = settings.epsilon,
                  .relu = settings.relu,
                  .added = added},
                 out);
  return out;
}

}  // namespace

BatchNormed batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const BatchNormSettings& settings, const Tensor& added) {
  check("batch_norm", x, weight, bias);
  require_several_values(x);
  return run(x, weight, bias, settings, true, added);
}

BatchNormed batch_norm_statistics(const Tensor& x, double epsilon) {
  check("batch_norm_statistics", x, {}, {});
  if (x.numel() > 0 || x.is_meta()) return run(x, {}, {}, {.epsilon = epsilon}, false);
  BatchNormed none;  // of no values: mean and variance 0
  none.mean = Tensor::zeros({x.shape()[1]}, statistics_dtype(x), x.device());
  none.variance = none.mean.clone(), none.rstd = none.mean.clone();
  return none;
}

Tensor batch_norm_apply(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                        const Tensor& bias, bool relu, const Tensor& added) {
  const char* where = "batch_norm";
  const Device device = check(where, x, weight, bias);
  check_like(where, "an added tensor", added, x);
  check_per_channel(where, "mean", mean, x, true);
  check_per_channel(where, "rstd", rstd, x, true);
  const BatchNormed out{empty_like(x), {}, {}, {}};
  forward_kernel(device,
                 {.x = dense(x),
                  .weight = contiguous(weight),
                  .bias = contiguous(bias),
                  .mean = mean.contiguous(),
                  .rstd = rstd.contiguous(),
                  .relu = relu,
                  .added = added},
                 out);
  return out.y;
}

BatchNormGradients batch_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                       const Tensor& bias, const Tensor& mean, const Tensor& rstd,
                                       const BatchNormBackward& wanted) {
  const char* where = "batch_norm_backward";
  const Device device = common_device(where, {&dy, &x, &mean, &rstd});
  require_same_dtype(where, {&x, &dy});
  require<ShapeError>(dy.shape() == x.shape(), where, ": expected a gradient of x's shape ", x.shape(),
                      ", got ", dy.shape());
  BatchNormGradients out;
  if (wanted.x) out.x = empty_like(x);
  if (wanted.weight) out.weight = per_channel(x, device);
  if (wanted.bias) out.bias = per_channel(x, device);
  check_like(where, "the forward's result", wanted.y, x);
  if (wanted.y.defined()) out.added = empty_like(x);
  const int64_t channels = std::max<int64_t>(1, x.shape()[1]);
  backward_kernel(device,
                  {.dy = in_layout(is_channels_last(x), dy),
                   .x = dense(x),
                   .weight = contiguous(weight),
                   .bias = contiguous(bias),
                   .mean = mean.contiguous(),
                   .rstd = rstd.contiguous(),
                   .sum_dy = {},
                   .sum_along = {},
                   .count = static_cast<double>(x.numel() / channels),
                   .relu = wanted.relu,
                   .by_statistics = wanted.by_statistics,
                   .y = wanted.y},
                  out);
  return out;
}

Tensor batch_norm_input_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Tensor& mean, const Tensor& rstd, const Tensor& sum_dy,
                                 const Tensor& sum_along, double count, bool relu) {
  const char* where = "batch_norm_input_backward";
  const Device device = common_device(where, {&dy, &x, &mean, &rstd, &sum_dy, &sum_along});
  require_same_dtype(where, {&x, &dy});
  check_per_channel(where, "sum_dy", sum_dy, x, true);
  check_per_channel(where, "sum_along", sum_along, x, true);
  const BatchNormGradients out{empty_like(x), {}, {}};
  backward_kernel(device,
                  {.dy = in_layout(is_channels_last(x), dy),
                   .x = dense(x),
                   .weight = contiguous(weight),
                   .bias = contiguous(bias),
                   .mean = mean.contiguous(),
                   .rstd = rstd.contiguous(),
                   .sum_dy = sum_dy.contiguous(),
                   .sum_along = sum_along.contiguous(),
                   .count = count,
                   .relu = relu},
                  out);
  return out.x;
}

}  // namespace tessera::ops
