#include "tensor/ops/creation/creation.h"

#include <algorithm>
#include <cmath>

#include "tensor/batched/rules.h"
#include "tensor/cpu/elementwise/elementwise.h"
#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Tensor&, const Scalar&)> fill_kernel{"fill", &kernels::cpu::fill,
                                                                 TESSERA_CUDA_KERNEL(kernels::cuda::fill),
                                                                 batched::together<&kernels::cpu::fill>};

/// The 1-dim tensor of value(i) for i < count, computed as T on the host.
template <class T, class Value>
Tensor sequence(int64_t count, DType dtype, Device device, Value value) {
  if (device.is_meta()) return Tensor::empty({count}, dtype, device);
  Tensor out = Tensor::empty({count}, dtype_of<T>);
  T* data = out.data<T>();
  for (int64_t i = 0; i < count; ++i) data[i] = value(i);
  return cast(out, dtype).to(device);
}

/// to - from, which may not fit in 64 bits.
double distance(int64_t from, int64_t to) {
  const uint64_t apart = static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  return to >= from ? static_cast<double>(apart) : -static_cast<double>(-apart);
}

}  // namespace

Tensor zeros(const Shape& shape, DType dtype, Device device) {
  return Tensor::zeros(shape, dtype, device);
}

Tensor ones(const Shape& shape, DType dtype, Device device) {
  return dtype == boolean ? full(shape, true, dtype, device) : full(shape, 1, dtype, device);
}

Tensor full(const Shape& shape, const Scalar& value, DType dtype, Device device) {
  alignas(8) char element[8];
  value.write(dtype, element, "full");
  Tensor out = Tensor::empty(shape, dtype, device);
  fill_kernel(device, out, value);
  return out;
}

Tensor full(const Shape& shape, const Scalar& value) {
  return full(shape, value, value.is_boolean() ? boolean : value.is_integer() ? i64 : f32);
}

Tensor empty(const Shape& shape, DType dtype, Device device) {
  return Tensor::empty(shape, dtype, device);
}

Tensor zeros_like(const Tensor& x, std::optional<DType> dtype) {
  const Device device = common_device("zeros_like", {&x});
  return zeros(x.shape(), dtype.value_or(x.dtype()), device);
}
Tensor ones_like(const Tensor& x, std::optional<DType> dtype) {
  const Device device = common_device("ones_like", {&x});
  return ones(x.shape(), dtype.value_or(x.dtype()), device);
}
Tensor full_like(const Tensor& x, const Scalar& value, std::optional<DType> dtype) {
  const Device device = common_device("full_like", {&x});
  return full(x.shape(), value, dtype.value_or(x.dtype()), device);
}
Tensor empty_like(const Tensor& x, std::optional<DType> dtype) {
  const Device device = common_device("empty_like", {&x});
  return empty(x.shape(), dtype.value_or(x.dtype()), device);
}

Tensor eye(int64_t n, DType dtype, Device device) {
  return eye(n, n, dtype, device);
}
Tensor eye(int64_t n, int64_t m, DType dtype, Device device) {
  const Tensor out = zeros({n, m}, dtype, device);
  const Tensor diagonal = out.as_strided({std::min(n, m)}, {m + 1}, 0);
  if (dtype == boolean)
    fill_(diagonal, true);
  else
    fill_(diagonal, 1);
  return out;
}

void fill_(const Tensor& x, const Scalar& value) {
  const Device device = common_device("fill_", {&x});
  alignas(8) char element[8];
  value.write(x.dtype(), element, "fill_");
  check_out("fill_", x, x.shape(), x.dtype());
  fill_kernel(device, x, value);
  x.bump_version();
}

Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, DType dtype, Device device) {
  require<ValueError>(step.real() != 0.0, "arange: expected a step that is not 0");
  require<ValueError>((end.real() - start.real()) / step.real() >= 0, "arange: a step of ", step,
                      " does not lead from ", start, " to ", end);
  require<DTypeError>(dtype != boolean, "arange: expected a numeric dtype, got bool");
  const bool integral = !start.is_floating() && !end.is_floating() && !step.is_floating();
  require<DTypeError>(integral || is_floating(dtype), "arange: floating bounds (", start, ", ", end, ", ",
                      step, ") need a floating dtype, got ", dtype);
  const double span = integral ? distance(start.integer(), end.integer()) : end.real() - start.real();
  const double length = std::max(0.0, std::ceil(span / step.real()));
  require<ShapeError>(length < 0x1p63, "arange: expected fewer than 2^63 elements, got ", length, " from ",
                      start, " to ", end, " by ", step);
  const auto count = static_cast<int64_t>(length);
  if (integral && !is_floating(dtype))
    return sequence<int64_t>(count, dtype, device,
                             [&](int64_t i) { return start.integer() + i * step.integer(); });
  return sequence<double>(count, dtype, device,
                          [&](int64_t i) { return start.real() + static_cast<double>(i) * step.real(); });
}

Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step) {
  const bool floating = start.is_floating() || end.is_floating() || step.is_floating();
  return arange(start, end, step, floating ? f32 : i64);
}

Tensor arange(int64_t end, DType dtype, Device device) {
  return arange(0, end, 1, dtype, device);
}

Tensor linspace(double start, double end, int64_t count, DType dtype, Device device) {
  require<ValueError>(count >= 0, "linspace: expected a count of at least 0, got ", count);
  require<DTypeError>(is_floating(dtype), "linspace: expected a floating dtype, got ", dtype);
  const double step = count > 1 ? (end - start) / static_cast<double>(count - 1) : 0.0;
  return sequence<double>(count, dtype, device, [&](int64_t i) {
    return i < (count + 1) / 2 ? start + static_cast<double>(i) * step
                               : end - static_cast<double>(count - 1 - i) * step;
  });
}

Tensor one_hot(const Tensor& ids, int64_t classes, DType dtype) {
  const Device device = common_device("one_hot", {&ids});
  require<DTypeError>(ids.dtype() == i64 || ids.dtype() == i32, "one_hot: expected i64 or i32 ids, got ",
                      describe(ids));
  require<ValueError>(classes >= 0, "one_hot: expected at least 0 classes, got ", classes);
  Shape shape = ids.shape();
  shape.push_back(classes);
  if (device.is_meta()) return Tensor::empty(shape, dtype, device);
  const Tensor flat = cast(ids.to(cpu()), i64).contiguous();
  const int64_t* data = flat.data<int64_t>();
  Tensor out = Tensor::zeros(shape, dtype);
  char* bytes = static_cast<char*>(out.raw_data());
  for (int64_t i = 0; i < flat.numel(); ++i) {
    require<IndexError>(data[i] >= 0 && data[i] < classes, "one_hot: id ", data[i], " at position ", i,
                        " is outside [0, ", classes, ")");
    const Scalar one = dtype == boolean ? Scalar(true) : Scalar(1);
    one.write(dtype, bytes + (i * classes + data[i]) * size_of(dtype), "one_hot");
  }
  return out.to(device);
}

}  // namespace tessera::ops
