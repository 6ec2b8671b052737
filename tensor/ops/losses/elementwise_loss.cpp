#include "tensor/ops/losses/elementwise_loss.h"

#include "tensor/batched/rules.h"
#include "tensor/cpu/losses/elementwise_loss.h"
#include "tensor/cuda/losses/elementwise_loss.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/kernel.h"

namespace tessera {

const char* name_of(ElementwiseLossKind kind) {
#define TESSERA_CASE(name)        \
  case ElementwiseLossKind::name: \
    return #name;
  switch (kind) {
    TESSERA_CASE(l1_loss)
    TESSERA_CASE(mse_loss)
    TESSERA_CASE(huber_loss)
    TESSERA_CASE(smooth_l1_loss)
    TESSERA_CASE(bce_with_logits)
    TESSERA_CASE(binary_cross_entropy)
  }
#undef TESSERA_CASE
  return "loss";
}

namespace ops {
namespace {

constexpr Kernel<void(const ElementwiseLoss&, const Tensor&, const Tensor&, const Tensor&)> values_kernel{
    "elementwise_loss", &kernels::cpu::elementwise_losses,
    TESSERA_CUDA_KERNEL(kernels::cuda::elementwise_losses),
    batched::together<&kernels::cpu::elementwise_losses>};
constexpr Kernel<void(const ElementwiseLoss&, double, const Tensor&, const Tensor&, const Tensor&)>
    sum_kernel{"elementwise_loss", &kernels::cpu::elementwise_loss_sum,
               TESSERA_CUDA_KERNEL(kernels::cuda::elementwise_loss_sum),
               batched::one_by_one<&kernels::cpu::elementwise_loss_sum>};
constexpr Kernel<void(const ElementwiseLoss&, double, const Tensor&, const Tensor&, const Tensor&,
                      const Tensor&)>
    gradient_kernel{"elementwise_loss_backward", &kernels::cpu::elementwise_loss_backward,
                    TESSERA_CUDA_KERNEL(kernels::cuda::elementwise_loss_backward),
                    batched::together<&kernels::cpu::elementwise_loss_backward>};

void check(const char* name, const Tensor& x, const Tensor& target, LossReduction reduction) {
  require_floating(name, x);
  require_same_dtype(name, {&x, &target});
  require<ShapeError>(x.shape() == target.shape(), name, ": expected a target of x's shape ", x.shape(),
                      ", got ", target.shape());
  require<ValueError>(reduction <= LossReduction::none, name,
                      ": expected a reduction to mean, to sum or to none, got the value ",
                      static_cast<int>(reduction));
}

/// By what a sum is multiplied.
double scale_of(LossReduction reduction, const Tensor& x) {
  return reduction == LossReduction::mean ? 1 / static_cast<double>(x.numel()) : 1.0;
}

}  // namespace

Tensor elementwise_loss(const ElementwiseLoss& f, const Tensor& x, const Tensor& target,
                        LossReduction reduction) {
  const char* name = name_of(f.kind);
  const Device device = common_device(name, {&x, &target});
  check(name, x, target, reduction);
  if (reduction == LossReduction::none) {
    Tensor out = Tensor::empty(x.shape(), x.dtype(), device);
    if (out.numel() > 0) values_kernel(device, f, x, target, out);
    return out;
  }
  Tensor out = Tensor::empty({}, x.dtype(), device);
  sum_kernel(device, f, scale_of(reduction, x), x.contiguous(), target.contiguous(), out);
  return out;
}

Tensor elementwise_loss_backward(const ElementwiseLoss& f, const Tensor& dloss, const Tensor& x,
                                 const Tensor& target, LossReduction reduction) {
  const char* name = name_of(f.kind);
  const Device device = common_device(name, {&dloss, &x, &target});
  check(name, x, target, reduction);
  require_same_dtype(name, {&x, &dloss});
  const Shape expected = reduction == LossReduction::none ? x.shape() : Shape{};
  require<ShapeError>(dloss.shape() == expected, name, ": expected a gradient of the loss ", expected,
                      ", got ", dloss.shape());
  Tensor dx = Tensor::empty(x.shape(), x.dtype(), device);
  if (dx.numel() > 0)
    gradient_kernel(device, f, scale_of(reduction, x), prepare_operand(dloss, dx.shape()), x, target, dx);
  return dx;
}

}  // namespace ops
}  // namespace tessera
