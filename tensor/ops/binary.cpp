#include "tensor/ops/binary.h"
#include "tensor/ops/cast.h"
#include "tensor/ops/kernel.h"
namespace tessera::ops {
namespace {
template <class F>
Tensor apply(const char* name, const Tensor& a, const Tensor& b, F f) {
  require_same_dtype(name, {&a, &b});
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), name);
  Tensor out = Tensor::empty(shape, f64, common_device(name, {&a, &b}));
  if (out.is_meta()) return Tensor::empty(shape, a.dtype(), out.device());
  const Tensor x = cast(a, f64).expand(shape).contiguous(), y = cast(b, f64).expand(shape).contiguous();
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<double>()[i] = f(x.data<double>()[i], y.data<double>()[i]);
  return cast(out, a.dtype());
}
}  // namespace
Tensor add(const Tensor& a, const Tensor& b) {
  return apply("add", a, b, [](double x, double y) { return x + y; });
}
Tensor sub(const Tensor& a, const Tensor& b) {
  return apply("sub", a, b, [](double x, double y) { return x - y; });
}
Tensor mul(const Tensor& a, const Tensor& b) {
  return apply("mul", a, b, [](double x, double y) { return x * y; });
}
void add_(const Tensor& a, const Tensor& b) {
  a.copy_from(add(a, b));
}
void mul_(const Tensor& a, const Tensor& b) {
  a.copy_from(mul(a, b));
}
}  // namespace tessera::ops
