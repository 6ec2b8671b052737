#include "tensor/ops/elementwise/activation_function.h"

#include "tensor/batched/rules.h"
#include "tensor/cpu/elementwise/activation_function.h"
#include "tensor/cuda/elementwise/activation_function.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/kernel.h"

namespace tessera {

const char* name_of(ActivationKind kind) {
#define TESSERA_CASE(name)   \
  case ActivationKind::name: \
    return #name;
  switch (kind) {
    TESSERA_CASE(elu)
    TESSERA_CASE(hardshrink)
    TESSERA_CASE(hardsigmoid)
    TESSERA_CASE(hardswish)
    TESSERA_CASE(hardtanh)
    TESSERA_CASE(leaky_relu)
    TESSERA_CASE(logsigmoid)
    TESSERA_CASE(mish)
    TESSERA_CASE(softplus)
    TESSERA_CASE(softshrink)
    TESSERA_CASE(softsign)
    TESSERA_CASE(tanhshrink)
    TESSERA_CASE(threshold)
  }
#undef TESSERA_CASE
  return "activation";
}

namespace ops {
namespace {

constexpr Kernel<void(const ActivationFunction&, const Tensor&, const Tensor&)> value_kernel{
    "activation", &kernels::cpu::activation, TESSERA_CUDA_KERNEL(kernels::cuda::activation),
    batched::together<&kernels::cpu::activation>};
constexpr Kernel<void(const ActivationFunction&, const Tensor&, const Tensor&, const Tensor&)>
    gradient_kernel{"activation_backward", &kernels::cpu::activation_backward,
                    TESSERA_CUDA_KERNEL(kernels::cuda::activation_backward),
                    batched::together<&kernels::cpu::activation_backward>};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&)> prelu_kernel{
    "prelu", &kernels::cpu::prelu, TESSERA_CUDA_KERNEL(kernels::cuda::prelu),
    batched::together<&kernels::cpu::prelu>};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&)> prelu_gradient_kernel{
    "prelu_backward", &kernels::cpu::prelu_backward, TESSERA_CUDA_KERNEL(kernels::cuda::prelu_backward),
    batched::together<&kernels::cpu::prelu_backward>};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&)> slope_gradient_kernel{
    "prelu_slope_backward", &kernels::cpu::prelu_slope_backward,
    TESSERA_CUDA_KERNEL(kernels::cuda::prelu_slope_backward),
    batched::together<&kernels::cpu::prelu_slope_backward>};

void check_gradient(const char* name, const Tensor& x, const Tensor& dy) {
  require_floating(name, x);
  require_same_dtype(name, {&x, &dy});
  require<ShapeError>(x.shape() == dy.shape(), name, ": expected a gradient of the input's shape ", x.shape(),
                      ", got ", dy.shape());
}

}  // namespace

Tensor activation(const ActivationFunction& f, const Tensor& x) {
  const Device device = common_device(name_of(f.kind), {&x});
  require_floating(name_of(f.kind), x);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  if (y.numel() > 0) value_kernel(device, f, x, y);
  return y;
}

void activation_(const ActivationFunction& f, const Tensor& x) {
  const Device device = common_device(name_of(f.kind), {&x});
  require_floating(name_of(f.kind), x);
  check_out(name_of(f.kind), x, x.shape(), x.dtype());
  if (x.numel() > 0) value_kernel(device, f, x, x);
  x.bump_version();
}

Tensor activation_backward(const ActivationFunction& f, const Tensor& x, const Tensor& dy) {
  const Device device = common_device(name_of(f.kind), {&x, &dy});
  check_gradient(name_of(f.kind), x, dy);
  Tensor dx = Tensor::empty(x.shape(), x.dtype(), device);
  if (dx.numel() > 0) gradient_kernel(device, f, x, dy, dx);
  return dx;
}

Tensor sloped_relu(const Tensor& x, const Tensor& slope) {
  const Device device = common_device("prelu", {&x, &slope});
  require_floating("prelu", x);
  require_same_dtype("prelu", {&x, &slope});
  require<ShapeError>(broadcast_shapes(x.shape(), slope.shape(), "prelu") == x.shape(), "prelu: the slope ",
                      slope.shape(), " does not broadcast to x's shape ", x.shape());
  Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  if (y.numel() > 0) prelu_kernel(device, x, prepare_operand(slope, y.shape()), y);
  return y;
}

Tensor sloped_relu_backward(const Tensor& x, const Tensor& slope, const Tensor& dy) {
  const Device device = common_device("prelu_backward", {&x, &slope, &dy});
  check_gradient("prelu_backward", x, dy);
  Tensor dx = Tensor::empty(x.shape(), x.dtype(), device);
  if (dx.numel() > 0) prelu_gradient_kernel(device, x, prepare_operand(slope, dx.shape()), dy, dx);
  return dx;
}

Tensor slope_backward(const Tensor& x, const Tensor& dy) {
  const Device device = common_device("prelu_backward", {&x, &dy});
  check_gradient("prelu_backward", x, dy);
  Tensor out = Tensor::empty(x.shape(), x.dtype(), device);
  if (out.numel() > 0) slope_gradient_kernel(device, x, dy, out);
  return out;
}

}  // namespace ops
}  // namespace tessera
