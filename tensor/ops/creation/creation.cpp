#include "tensor/ops/creation/creation.h"

#include <algorithm>
#include <cmath>

#include "tensor/batched/rules.h"
#include "tensor/cpu/creation/sequence.h"
#include "tensor/cpu/elementwise/elementwise.h"
#include "tensor/cuda/creation/sequence.h"
#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Sequence&, const Tensor&)> sequence_kernel{
    "arange", &kernels::cpu::fill_sequence, TESSERA_CUDA_KERNEL(kernels::cuda::fill_sequence)};
constexpr Kernel<void(const Tensor& ids, int64_t classes, const Tensor& out)> one_hot_kernel{
    "one_hot", &kernels::cpu::one_hot, TESSERA_CUDA_KERNEL(kernels::cuda::one_hot)};
constexpr Kernel<void(const Tensor&, const Scalar&)> fill_kernel{"fill", &kernels::cpu::fill,
                                                                 TESSERA_CUDA_KERNEL(kernels::cuda::fill),
                                                                 batched::together<&kernels::cpu::fill>};

/// The 1-dim tensor of the values, computed where it lies.
Tensor sequence(const Sequence& values, DType dtype, Device device) {
  const Tensor out = Tensor::empty({values.count}, dtype, device);
  if (!device.is_batched()) {
    sequence_kernel(device, values, out);
    return out;
  }
  return sequence(values, dtype, cpu()).to(device);
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
    return sequence({.first = start.integer(), .step = step.integer(), .count = count}, dtype, device);
  return sequence(
      {.kind = Sequence::Kind::reals, .start = start.real(), .spacing = step.real(), .count = count}, dtype,
      device);
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
  return sequence(
      {.kind = Sequence::Kind::between, .start = start, .end = end, .spacing = step, .count = count}, dtype,
      device);
}

Tensor one_hot(const Tensor& ids, int64_t classes, DType dtype) {
  const Device device = common_device("one_hot", {&ids});
  require<DTypeError>(ids.dtype() == i64 || ids.dtype() == i32, "one_hot: expected i64 or i32 ids, got ",
                      describe(ids));
  require<ValueError>(classes >= 0, "one_hot: expected at least 0 classes, got ", classes);
  Shape shape = ids.shape();
  shape.push_back(classes);
  if (device.is_batched()) return one_hot(ids.to(cpu()), classes, dtype).to(device);
  const Tensor out = Tensor::zeros(shape, dtype, device);
  one_hot_kernel(device, ids.contiguous(), classes, out);
  return out;
}

}  // namespace tessera::ops
