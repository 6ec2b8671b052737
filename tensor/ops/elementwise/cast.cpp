#include "tensor/ops/elementwise/cast.h"

#include "tensor/batched/rules.h"
#include "tensor/channels_last.h"
#include "tensor/cpu/elementwise/elementwise.h"
#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Tensor&, const Tensor&)> cast_kernel{"cast", &kernels::cpu::cast,
                                                                 TESSERA_CUDA_KERNEL(kernels::cuda::cast),
                                                                 batched::together<&kernels::cpu::cast>};

}  // namespace

Tensor cast(const Tensor& x, DType dtype) {
  const Device device = common_device("cast", {&x});
  if (x.dtype() == dtype) return x;
  if (is_channels_last(x)) return channels_second(cast(channels_innermost(x), dtype));
  Tensor out = Tensor::empty(x.shape(), dtype, device);
  cast_kernel(device, x, out);
  return out;
}

void cast_out(const Tensor& x, const Tensor& out) {
  const Device device = common_device("cast", {&x, &out});
  check_out("cast", out, broadcast_shapes(x.shape(), out.shape(), "cast"), out.dtype());
  cast_kernel(device, prepare_operand(x, out), out);
  out.bump_version();
}

}  // namespace tessera::ops
