#include "tensor/ops/creation.h"
#include "tensor/ops/cast.h"
namespace tessera::ops {
Tensor ones(const Shape& shape, DType dtype, Device device) {
  if (device.is_meta()) return Tensor::empty(shape, dtype, device);
  return cast(Tensor::scalar(1.0), dtype).expand(shape).clone();
}
}  // namespace tessera::ops
