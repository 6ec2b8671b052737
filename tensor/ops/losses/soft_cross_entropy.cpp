#include "tensor/ops/losses/soft_cross_entropy.h"

#include "tensor/batched/rules.h"
#include "tensor/cpu/losses/soft_cross_entropy.h"
#include "tensor/cuda/losses/soft_cross_entropy.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const CrossEntropyOptions&, const Tensor&,
                      const Tensor&)>
    forward_kernel{"cross_entropy", &kernels::cpu::soft_cross_entropy,
                   TESSERA_CUDA_KERNEL(kernels::cuda::soft_cross_entropy),
                   batched::one_by_one<&kernels::cpu::soft_cross_entropy>};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      const CrossEntropyOptions&, const Tensor&)>
    backward_kernel{"cross_entropy_backward", &kernels::cpu::soft_cross_entropy_backward,
                    TESSERA_CUDA_KERNEL(kernels::cuda::soft_cross_entropy_backward),
                    batched::one_by_one<&kernels::cpu::soft_cross_entropy_backward>};

DType loss_dtype(const Tensor& logits) {
  return logits.dtype() == f64 ? f64 : f32;
}

Tensor contiguous(const Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : tensor;
}

/// The shape of the rows' losses.
Shape check(const Tensor& logits, const Tensor& targets, const Tensor& weight,
            const CrossEntropyOptions& options) {
  require_floating("cross_entropy", logits);
  require_same_dtype("cross_entropy", {&logits, &targets});
  require<ShapeError>(logits.ndim() >= 1 && logits.shape().back() >= 1,
                      "cross_entropy: expected logits of shape (..., classes) with at least one class, got ",
                      logits.shape());
  require<ShapeError>(logits.shape() == targets.shape(),
                      "cross_entropy: expected a probability of each class as targets, of the logits' shape ",
                      logits.shape(), ", got ", targets.shape());
  require<ValueError>(options.label_smoothing >= 0 && options.label_smoothing <= 1,
                      "cross_entropy: expected a label smoothing in [0, 1], got ", options.label_smoothing);
  require<ValueError>(options.reduction <= LossReduction::none,
                      "cross_entropy: expected a reduction to mean, to sum or to none, got the value ",
                      static_cast<int>(options.reduction));
  if (weight.defined()) {
    require_same_dtype("cross_entropy", {&logits, &weight});
    require<ShapeError>(weight.shape() == Shape{logits.shape().back()}, "cross_entropy: expected ",
                        logits.shape().back(), " class weights, got ", weight.shape());
  }
  Shape rows = logits.shape();
  rows.erase(rows.ndim() - 1);
  return rows;
}

}  // namespace

SoftCrossEntropy soft_cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                                    const CrossEntropyOptions& options) {
  Device device = common_device("cross_entropy", {&logits, &targets});
  if (weight.defined()) device = common_device("cross_entropy", {&logits, &targets, &weight});
  Shape rows = check(logits, targets, weight, options);
  const DType wide = loss_dtype(logits);
  SoftCrossEntropy result;
  result.loss = Tensor::empty(options.reduction == LossReduction::none ? rows : Shape{}, wide, device);
  rows.insert(0, 2);
  result.log_sum_exp = Tensor::empty(rows, wide, device);
  forward_kernel(device, logits.contiguous(), targets.contiguous(), contiguous(weight), options,
                 result.log_sum_exp, result.loss);
  return result;
}

Tensor soft_cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& targets,
                                   const Tensor& weight, const Tensor& log_sum_exp,
                                   const CrossEntropyOptions& options) {
  const Device device = common_device("cross_entropy_backward", {&dloss, &logits, &targets, &log_sum_exp});
  const Shape rows = check(logits, targets, weight, options);
  const Shape expected = options.reduction == LossReduction::none ? rows : Shape{};
  require<ShapeError>(dloss.shape() == expected, "cross_entropy_backward: expected a gradient of the loss ",
                      expected, ", got ", dloss.shape());
  Tensor dlogits = Tensor::empty(logits.shape(), logits.dtype(), device);
  if (dlogits.numel() > 0)
    backward_kernel(device, dloss.contiguous(), logits.contiguous(), targets.contiguous(), contiguous(weight),
                    log_sum_exp, options, dlogits);
  return dlogits;
}

}  // namespace tessera::ops
