#include "tensor/ops/creation/literal.h"

#include "tensor/ops/elementwise/cast.h"

namespace tessera::detail {
namespace {

template <class T>
Tensor converted(const std::vector<T>& values, const Shape& shape, DType dtype, Device device) {
  return ops::cast(Tensor::from(values, shape), dtype).to(device);
}

}  // namespace

Tensor from_literal(const std::vector<double>& values, const Shape& shape, std::optional<DType> dtype,
                    Device device) {
  return converted(values, shape, dtype.value_or(f32), device);
}

Tensor from_literal(const std::vector<int64_t>& values, const Shape& shape, std::optional<DType> dtype,
                    Device device) {
  return converted(values, shape, dtype.value_or(i64), device);
}

Tensor from_literal(const std::vector<uint8_t>& bools, const Shape& shape, std::optional<DType> dtype,
                    Device device) {
  return converted(bools, shape, dtype.value_or(boolean), device);
}

}  // namespace tessera::detail
