#include "tensor/ops/loss.h"

#include "tensor/cpu/loss.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const CrossEntropyOptions&,
                      const CrossEntropy&)>
    forward_kernel{"cross_entropy", &kernels::cpu::cross_entropy, nullptr};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const CrossEntropy&,
                      const CrossEntropyOptions&, const Tensor&)>
    backward_kernel{"cross_entropy_backward", &kernels::cpu::cross_entropy_backward, nullptr};

DType loss_dtype(const Tensor& logits) {
  return logits.dtype() == f64 ? f64 : f32;
}

Tensor contiguous(const Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : tensor;
}

}  // namespace

void check_cross_entropy(const Shape& logits, DType dtype, const Tensor& targets, const Tensor& weight,
                         const CrossEntropyOptions& options) {
  require<ShapeError>(logits.rank() >= 1 && logits.back() >= 1,
                      "cross_entropy: expected logits of shape (..., classes) with at least one class, got ",
                      logits);
  Shape leading = logits;
  leading.erase(leading.rank() - 1);
  require<ShapeError>(targets.shape() == leading, "cross_entropy: expected targets ", leading, " for logits ",
                      logits, ", got ", targets.shape());
  require<DTypeError>(targets.dtype() == i64 || targets.dtype() == i32,
                      "cross_entropy: expected targets of class ids, i64 or i32, got ", describe(targets));
  require<ValueError>(options.label_smoothing >= 0 && options.label_smoothing <= 1,
                      "cross_entropy: expected a label smoothing in [0, 1], got ", options.label_smoothing);
  if (!weight.defined()) return;
  require<ShapeError>(weight.shape() == Shape{logits.back()}, "cross_entropy: expected ", logits.back(),
                      " class weights, got ", weight.shape());
  require<DTypeError>(weight.dtype() == dtype, "cross_entropy: expected class weights of the logits' dtype ",
                      dtype, ", got ", describe(weight));
  common_device("cross_entropy", {&targets, &weight});
}

CrossEntropy cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                           const CrossEntropyOptions& options) {
  const Device device = common_device("cross_entropy", {&logits, &targets});
  require_floating("cross_entropy", logits);
  check_cross_entropy(logits.shape(), logits.dtype(), targets, weight, options);
  const Shape loss_shape = options.reduction == LossReduction::none ? targets.shape() : Shape{};
  const DType wide = loss_dtype(logits);
  Shape rows = targets.shape();
  rows.insert(0, 2);
  const CrossEntropy result{Tensor::empty(loss_shape, wide, device), Tensor::empty(rows, wide, device),
                            Tensor::empty({}, f64, device)};
  forward_kernel(device, logits.contiguous(), targets.contiguous(), contiguous(weight), options, result);
  return result;
}

Tensor cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& targets,
                              const Tensor& weight, const CrossEntropy& forward,
                              const CrossEntropyOptions& options) {
  const Device device = common_device("cross_entropy_backward", {&dloss, &logits, &targets});
  check_cross_entropy(logits.shape(), logits.dtype(), targets, weight, options);
  const Shape loss_shape = options.reduction == LossReduction::none ? targets.shape() : Shape{};
  require<ShapeError>(dloss.shape() == loss_shape, "cross_entropy_backward: expected a gradient of the loss ",
                      loss_shape, ", got ", dloss.shape());
  require<DTypeError>(dloss.dtype() == loss_dtype(logits), "cross_entropy_backward: expected a gradient ",
                      loss_dtype(logits), " for logits ", logits.dtype(), ", got ", describe(dloss));
  Tensor dlogits = Tensor::empty(logits.shape(), logits.dtype(), device);
  backward_kernel(device, dloss.contiguous(), logits.contiguous(), targets.contiguous(), contiguous(weight),
                  forward, options, dlogits);
  return dlogits;
}

}  // namespace tessera::ops
