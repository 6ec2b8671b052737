#include "tensor/ops/device_copy.h"

#include "tensor/cuda/backend.h"
#include "tensor/memory/storage.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

Tensor empty_pinned(const Shape& shape, DType dtype) {
  const int64_t bytes = multiply_sizes(shape.numel(), size_of(dtype), "bytes of a tensor");
  return Tensor::over(Storage::allocate(bytes, cuda_backend::pinned_memory()), dtype, shape,
                      contiguous_strides(shape), 0);
}

}  // namespace

Tensor pin_memory(const Tensor& x) {
  const Device device = common_device("pin_memory", {&x});
  require<DeviceError>(device.is_cpu(), "pin_memory: expected a tensor on cpu, got ", describe(x));
  if (x.numel() == 0 || cuda_backend::is_pinned(x)) return x;
  const Tensor pinned = empty_pinned(x.shape(), x.dtype());
  pinned.copy_from(x);
  return pinned;
}

bool is_pinned(const Tensor& x) {
  return common_device("is_pinned", {&x}).is_cpu() && cuda_backend::is_pinned(x);
}

Tensor to_device(const Tensor& x, Device device, const DeviceCopyOptions& options) {
  const Device from = common_device("to_device", {&x});
  const bool crosses = (from.is_cuda() && device.is_cpu()) || (from.is_cpu() && device.is_cuda());
  if (!options.non_blocking || !crosses || x.numel() == 0) return x.to(device);
  const Tensor copied =
      device.is_cpu() ? empty_pinned(x.shape(), x.dtype()) : Tensor::empty(x.shape(), x.dtype(), device);
  cuda_backend::copy(x, copied, false);
  return copied;
}

}  // namespace tessera::ops
