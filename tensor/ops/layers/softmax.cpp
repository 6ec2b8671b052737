#include "tensor/ops/layers/softmax.h"

#include "tensor/batched/rules.h"
#include "tensor/cpu/layers/softmax.h"
#include "tensor/cuda/layers/softmax.h"
#include "tensor/ops/at_least_1d.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

using Forward = Kernel<void(const Tensor& x, const Tensor& y, int64_t dim)>;
using Backward = Kernel<void(const Tensor& y, const Tensor& dy, const Tensor& dx, int64_t dim)>;
constexpr Forward softmax_kernel{"softmax", &kernels::cpu::softmax,
                                 TESSERA_CUDA_KERNEL(kernels::cuda::softmax),
                                 batched::along<&kernels::cpu::softmax>};
constexpr Forward log_softmax_kernel{"log_softmax", &kernels::cpu::log_softmax,
                                     TESSERA_CUDA_KERNEL(kernels::cuda::log_softmax),
                                     batched::along<&kernels::cpu::log_softmax>};
constexpr Backward softmax_backward_kernel{"softmax_backward", &kernels::cpu::softmax_backward,
                                           TESSERA_CUDA_KERNEL(kernels::cuda::softmax_backward),
                                           batched::along<&kernels::cpu::softmax_backward>};
constexpr Backward log_softmax_backward_kernel{"log_softmax_backward", &kernels::cpu::log_softmax_backward,
                                               TESSERA_CUDA_KERNEL(kernels::cuda::log_softmax_backward),
                                               batched::along<&kernels::cpu::log_softmax_backward>};

Tensor forward(const Forward& kernel, const Tensor& x, int64_t dim) {
  const Device device = common_device(kernel.name(), {&x});
  require_floating(kernel.name(), x);
  dim = normalize_dim(dim, x.ndim(), kernel.name());
  Tensor y = Tensor::empty_like(x);
  if (y.numel() > 0) kernel(device, at_least_1d(x), at_least_1d(y), dim);
  return y;
}

Tensor backward(const Backward& kernel, const Tensor& y, const Tensor& dy, int64_t dim) {
  const Device device = common_device(kernel.name(), {&y, &dy});
  require_floating(kernel.name(), y);
  require_same_dtype(kernel.name(), {&y, &dy});
  require<ShapeError>(y.shape() == dy.shape(), kernel.name(), ": expected a gradient of the output's shape ",
                      y.shape(), ", got ", dy.shape());
  dim = normalize_dim(dim, y.ndim(), kernel.name());
  Tensor dx = Tensor::empty(y.shape(), y.dtype(), device);
  if (dx.numel() > 0) kernel(device, at_least_1d(y), at_least_1d(dy), at_least_1d(dx), dim);
  return dx;
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t dim) {
  return forward(softmax_kernel, x, dim);
}

Tensor log_softmax(const Tensor& x, int64_t dim) {
  return forward(log_softmax_kernel, x, dim);
}

Tensor softmax_backward(const Tensor& y, const Tensor& dy, int64_t dim) {
  return backward(softmax_backward_kernel, y, dy, dim);
}

Tensor log_softmax_backward(const Tensor& y, const Tensor& dy, int64_t dim) {
  return backward(log_softmax_backward_kernel, y, dy, dim);
}

}  // namespace tessera::ops
