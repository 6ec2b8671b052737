#include "tensor/ops/linalg/distance.h"

#include "tensor/batched/rules.h"
#include "tensor/cpu/linalg/distance.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/kernel.h"
#include "tensor/ops/linalg/matrices.h"
#include "tensor/ops/matmul.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(double, const Tensor&, const Tensor&, const Tensor&)> distances_kernel{
    "cdist", &kernels::cpu::distances, nullptr, batched::one_by_one<&kernels::cpu::distances>};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&)> products_kernel{
    "cdist", &kernels::cpu::distances_from_products, nullptr,
    batched::one_by_one<&kernels::cpu::distances_from_products>};
constexpr Kernel<void(double, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&)>
    backward_kernel{"cdist_backward", &kernels::cpu::distances_backward, nullptr,
                    batched::one_by_one<&kernels::cpu::distances_backward>};

/// One batch dimension.
Tensor flat(const Tensor& x, int64_t batch) {
  return x.reshape({batch, x.size(-2), x.size(-1)}).contiguous();
}

}  // namespace

Tensor cdist(const Tensor& a, const Tensor& b, double p) {
  const Device device = common_device("cdist", {&a, &b});
  require_floating("cdist", a);
  require_same_dtype("cdist", {&a, &b});
  require<ShapeError>(a.ndim() >= 2 && b.ndim() >= 2 && a.shape().back() == b.shape().back(),
                      "cdist: expected rows of one length, (..., n, d) and (..., m, d), got ", a.shape(),
                      " and ", b.shape());
  require<ValueError>(p >= 0, "cdist: expected p of at least 0, got ", p);
  if (a.dtype() == bf16 || a.dtype() == f16) return cast(cdist(cast(a, f32), cast(b, f32), p), a.dtype());
  const Shape batch =
      broadcast_shapes(linalg::batch_shape(a.shape()), linalg::batch_shape(b.shape()), "cdist");
  const int64_t n = a.size(-2), m = b.size(-2), d = a.size(-1), count = batch.numel();
  const Shape shape = linalg::joined(batch, {n, m});
  if (count * n * m == 0 || device.is_meta()) return Tensor::empty(shape, a.dtype(), device);
  const Tensor left = flat(a.expand(linalg::joined(batch, {n, d})), count);
  const Tensor right = flat(b.expand(linalg::joined(batch, {m, d})), count);
  if (p == 2 && d > 0 && (n > 25 || m > 25)) {
    const Tensor y = bmm(left, right.transpose(1, 2)).contiguous();
    products_kernel(device, left, right, y);
    return y.view(shape);
  }
  const Tensor y = Tensor::empty({count, n, m}, a.dtype(), device);
  distances_kernel(device, p, left, right, y);
  return y.view(shape);
}

Tensor cdist_backward(const Tensor& a, const Tensor& b, double p, const Tensor& y, const Tensor& dy) {
  const Device device = common_device("cdist_backward", {&a, &b, &y, &dy});
  require_same_dtype("cdist_backward", {&a, &b, &y, &dy});
  require<DTypeError>(a.dtype() == f32 || a.dtype() == f64, "cdist_backward: expected f32 or f64, got ",
                      a.dtype());
  require<ShapeError>(
      a.ndim() >= 2 && b.ndim() == a.ndim() && y.shape() == dy.shape() && y.ndim() == a.ndim(),
      "cdist_backward: expected operands of as many dimensions, got ", a.shape(), ", ", b.shape(), ", ",
      y.shape(), " and ", dy.shape());
  const Tensor da = Tensor::empty(a.shape(), a.dtype(), device);
  if (da.numel() == 0 || device.is_meta()) return da;
  const int64_t count = linalg::batch_shape(a.shape()).numel();
  backward_kernel(device, p, flat(a, count), flat(b, count), flat(y, count), flat(dy, count),
                  flat(da, count));
  return da;
}

}  // namespace tessera::ops
