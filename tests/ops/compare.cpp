#include "tests/ops/compare.h"

#include <algorithm>
#include <cmath>

namespace tessera::test {
namespace {

/// Calls `visit` with a null pointer of the dtype's C++ type.
template <class Visit>
void with_type(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::f64:
      return visit(static_cast<double*>(nullptr));
    case DType::f32:
      return visit(static_cast<float*>(nullptr));
    case DType::bf16:
      return visit(static_cast<bfloat16*>(nullptr));
    case DType::f16:
      return visit(static_cast<float16*>(nullptr));
    case DType::i64:
      return visit(static_cast<int64_t*>(nullptr));
    case DType::i32:
      return visit(static_cast<int32_t*>(nullptr));
    case DType::u8:
      return visit(static_cast<uint8_t*>(nullptr));
    case DType::boolean:
      return visit(static_cast<bool*>(nullptr));
  }
}

template <class T>
double widen(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(value);
  else
    return static_cast<double>(static_cast<float>(value));
}

template <class T>
T narrow(double value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(value);
  else
    return T(static_cast<float>(value));
}

/// The distance in elements from the tensor's first element to the one of row-major index `i`.
int64_t position_of(int64_t i, const Tensor& tensor) {
  int64_t position = 0;
  for (int d = tensor.ndim() - 1; d >= 0; --d) {
    position += i % tensor.shape()[d] * tensor.strides()[d];
    i /= tensor.shape()[d];
  }
  return position;
}

}  // namespace

std::vector<double> f64_values(const Tensor& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.numel()));
  with_type(tensor.dtype(), [&]<class T>(T*) {
    const T* data = tensor.data<T>();
    for (int64_t i = 0; i < tensor.numel(); ++i)
      values[static_cast<size_t>(i)] = widen(data[position_of(i, tensor)]);
  });
  return values;
}

Tensor as_dtype(const Tensor& tensor, DType dtype) {
  const std::vector<double> values = f64_values(tensor);
  Tensor result = Tensor::empty(tensor.shape(), dtype);
  with_type(dtype,
            [&]<class T>(T*) { std::transform(values.begin(), values.end(), result.data<T>(), narrow<T>); });
  return result;
}

bool holds_exactly(const Tensor& tensor, DType dtype) {
  const std::vector<double> wide = f64_values(tensor), rounded = f64_values(as_dtype(tensor, dtype));
  for (size_t i = 0; i < wide.size(); ++i)
    if (!std::isnan(wide[i]) && wide[i] != rounded[i]) return false;
  return true;
}

Tensor strided_copy(const Tensor& tensor) {
  Strides strides = Strides::filled(tensor.ndim(), 2);
  for (int d = 1; d < tensor.ndim(); ++d)
    strides[d] = strides[d - 1] * std::max<int64_t>(1, tensor.shape()[d - 1]);
  const Tensor base = Tensor::zeros({2 * tensor.numel() + 3}, tensor.dtype());
  const Tensor copy = Tensor::over(base.storage(), tensor.dtype(), tensor.shape(), strides, 3);
  with_type(tensor.dtype(), [&]<class T>(T*) {
    const T* from = tensor.data<T>();
    T* to = copy.data<T>();
    for (int64_t i = 0; i < tensor.numel(); ++i) to[position_of(i, copy)] = from[position_of(i, tensor)];
  });
  return copy;
}

std::string difference(const Tensor& got, const Tensor& expected, double tolerance) {
  if (!got.defined()) return "there is no result";
  const bool both_floating = is_floating(got.dtype()) && is_floating(expected.dtype());
  if (got.shape() != expected.shape() || (got.dtype() != expected.dtype() && !both_floating))
    return text("got ", describe(got), ", expected ", describe(expected));
  const std::vector<double> a = f64_values(got);
  const std::vector<double> b = f64_values(both_floating ? as_dtype(expected, got.dtype()) : expected);
  double largest = 0;
  for (double value : b)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    if (std::abs(a[i] - b[i]) <= tolerance * (std::abs(b[i]) + std::min(1.0, largest)) && std::isfinite(b[i]))
      continue;
    return text("element ", i, " of ", describe(got), ": got ", a[i], ", expected ", b[i], ", tolerance ",
                tolerance);
  }
  return "";
}

}  // namespace tessera::test
