#include "tensor/functions.h"

namespace tessera {

Tensor amax(const Tensor& x, const Shape& dims, bool keepdim) {
  return ops::max(x, dims, keepdim);
}
Tensor amin(const Tensor& x, const Shape& dims, bool keepdim) {
  return ops::min(x, dims, keepdim);
}
Tensor stddev(const Tensor& x, const Shape& dims, bool keepdim, int64_t correction) {
  return ops::std(x, dims, keepdim, correction);
}

Tensor add(const Scalar& n, const Tensor& x) {
  return ops::add(x, n);
}
Tensor mul(const Scalar& n, const Tensor& x) {
  return ops::mul(x, n);
}
Tensor maximum(const Scalar& n, const Tensor& x) {
  return ops::maximum(x, n);
}
Tensor minimum(const Scalar& n, const Tensor& x) {
  return ops::minimum(x, n);
}
Tensor clamp_min(const Tensor& x, const Scalar& min) {
  return ops::maximum(x, min);
}
Tensor clamp_max(const Tensor& x, const Scalar& max) {
  return ops::minimum(x, max);
}

Tensor where(const Tensor& condition, const Scalar& a, const Scalar& b) {
  const bool floating = a.is_floating() || b.is_floating();
  const bool bools = a.is_boolean() && b.is_boolean();
  return ops::where(condition,
                    ops::full({}, a,
                              floating ? f32
                              : bools  ? boolean
                                       : i64,
                              condition.device()),
                    b);
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol) {
  return ops::all(isclose(a, b, rtol, atol)).item_i64() != 0;
}

Tensor cat(std::initializer_list<Tensor> tensors, int64_t dim) {
  return ops::cat(std::span<const Tensor>(tensors.begin(), tensors.size()), dim);
}
Tensor stack(std::initializer_list<Tensor> tensors, int64_t dim) {
  return ops::stack(std::span<const Tensor>(tensors.begin(), tensors.size()), dim);
}
std::vector<Tensor> split(const Tensor& x, std::initializer_list<int64_t> sizes, int64_t dim) {
  return ops::split(x, std::span<const int64_t>(sizes.begin(), sizes.size()), dim);
}
std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t dim) {
  return ops::split(x, ops::equal_sizes(x.shape(), size, dim), dim);
}

}  // namespace tessera
