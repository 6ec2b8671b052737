#include "tensor/ops/reduction.h"

#include <cmath>

#include "tensor/batched/rules.h"
#include "tensor/cpu/arg_extreme.h"
#include "tensor/cpu/reduction.h"
#include "tensor/cuda/reduction/arg_extreme.h"
#include "tensor/cuda/reduction/reduction.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(Reduction, double, const Tensor&, const Tensor&)> reduce_kernel{
    "reduce", &kernels::cpu::reduce, TESSERA_CUDA_KERNEL(kernels::cuda::reduce),
    batched::together<&kernels::cpu::reduce>};
constexpr Kernel<void(bool, int64_t, const Tensor&, const Tensor&)> arg_extreme_kernel{
    "argmax", &kernels::cpu::arg_extreme, TESSERA_CUDA_KERNEL(kernels::cuda::arg_extreme),
    batched::along<&kernels::cpu::arg_extreme>};

/// x's shape with extent 1 along the axes to reduce.
Shape kept_shape(const char* name, const Tensor& x, const Shape& axes) {
  require<ValueError>(x.defined(), name, ": expected a tensor, got an undefined one");
  if (axes.empty()) return Shape::filled(x.ndim(), 1);
  Shape kept = x.shape();
  unsigned seen = 0;
  for (int64_t axis : axes) {
    const int64_t dim = normalize_dim(axis, x.ndim(), name);
    require<ValueError>(!(seen >> dim & 1u), name, ": expected different axes, got ", dim, " twice in ",
                        axes);
    seen |= 1u << dim;
    kept[dim] = 1;
  }
  return kept;
}

bool is_reduced(const Shape& axes, int64_t dim, int64_t ndim) {
  if (axes.empty()) return true;
  for (int64_t axis : axes)
    if ((axis < 0 ? axis + ndim : axis) == dim) return true;
  return false;
}

Tensor drop_axes(const Tensor& result, const Shape& axes) {
  Shape shape;
  for (int dim = 0; dim < result.ndim(); ++dim)
    if (!is_reduced(axes, dim, result.ndim())) shape.push_back(result.shape()[dim]);
  return result.view(shape);
}

Tensor reduce(const char* name, Reduction kind, const Tensor& x, const Shape& axes, bool keepdim, DType dtype,
              double parameter = 0) {
  const Shape kept = kept_shape(name, x, axes);
  const Tensor out = Tensor::empty(kept, dtype, x.device());
  reduce_kernel(x.device(), kind, parameter, x, out);
  return keepdim ? out : drop_axes(out, axes);
}

DType sum_dtype(const char* name, const Tensor& x) {
  common_device(name, {&x});
  return is_floating(x.dtype()) ? x.dtype() : i64;
}

void require_elements(const char* name, const Tensor& x, const Shape& axes) {
  const bool nothing = x.numel() == 0 && kept_shape(name, x, axes).numel() != 0;
  require<ShapeError>(!nothing, name, ": expected at least one element along axes ", axes, ", got ",
                      describe(x));
}

Tensor extreme(const char* name, Reduction kind, const Tensor& x, const Shape& axes, bool keepdim) {
  common_device(name, {&x});
  require_elements(name, x, axes);
  return reduce(name, kind, x, axes, keepdim, x.dtype());
}

Tensor floating_reduce(const char* name, Reduction kind, const Tensor& x, const Shape& axes, bool keepdim,
                       double parameter = 0) {
  common_device(name, {&x});
  require_floating(name, x);
  return reduce(name, kind, x, axes, keepdim, x.dtype(), parameter);
}

Tensor arg_extreme(const char* name, bool largest, const Tensor& x, int64_t axis, bool keepdim) {
  common_device(name, {&x});
  const int64_t dim = normalize_dim(axis, x.ndim(), name);
  if (x.ndim() == 0) return Tensor::zeros({}, i64, x.device());
  require_elements(name, x, {dim});
  const Tensor out = Tensor::empty(kept_shape(name, x, {dim}), i64, x.device());
  arg_extreme_kernel(x.device(), largest, dim, x, out);
  return keepdim ? out : out.squeeze(dim);
}

}  // namespace

Tensor sum(const Tensor& x, const Shape& axes, bool keepdim) {
  return reduce("sum", Reduction::sum, x, axes, keepdim, sum_dtype("sum", x));
}

Tensor mean(const Tensor& x, const Shape& axes, bool keepdim) {
  return floating_reduce("mean", Reduction::mean, x, axes, keepdim);
}

Tensor prod(const Tensor& x, const Shape& axes, bool keepdim) {
  return reduce("prod", Reduction::prod, x, axes, keepdim, sum_dtype("prod", x));
}

Tensor max(const Tensor& x, const Shape& axes, bool keepdim) {
  return extreme("max", Reduction::max, x, axes, keepdim);
}

Tensor min(const Tensor& x, const Shape& axes, bool keepdim) {
  return extreme("min", Reduction::min, x, axes, keepdim);
}

Tensor any(const Tensor& x, const Shape& axes, bool keepdim) {
  return reduce("any", Reduction::any, x, axes, keepdim, boolean);
}

Tensor all(const Tensor& x, const Shape& axes, bool keepdim) {
  return reduce("all", Reduction::all, x, axes, keepdim, boolean);
}

Tensor var(const Tensor& x, const Shape& axes, bool keepdim, int64_t correction) {
  return floating_reduce("var", Reduction::var, x, axes, keepdim, static_cast<double>(correction));
}

Tensor std(const Tensor& x, const Shape& axes, bool keepdim, int64_t correction) {
  return floating_reduce("std", Reduction::std, x, axes, keepdim, static_cast<double>(correction));
}

Tensor norm(const Tensor& x, double p, const Shape& axes, bool keepdim) {
  require<ValueError>(!std::isnan(p), "norm: expected a number p, got NaN");
  if (std::isinf(p)) require_elements("norm", x, axes);
  return floating_reduce("norm", Reduction::norm, x, axes, keepdim, p);
}

Tensor logsumexp(const Tensor& x, const Shape& axes, bool keepdim) {
  return floating_reduce("logsumexp", Reduction::logsumexp, x, axes, keepdim);
}

Tensor argmax(const Tensor& x, int64_t axis, bool keepdim) {
  return arg_extreme("argmax", true, x, axis, keepdim);
}

Tensor argmin(const Tensor& x, int64_t axis, bool keepdim) {
  return arg_extreme("argmin", false, x, axis, keepdim);
}

Tensor argmax(const Tensor& x) {
  common_device("argmax", {&x});
  return arg_extreme("argmax", true, x.reshape({x.numel()}), 0, false);
}

Tensor argmin(const Tensor& x) {
  common_device("argmin", {&x});
  return arg_extreme("argmin", false, x.reshape({x.numel()}), 0, false);
}

ValuesAndIndices<Tensor> max_along(const Tensor& x, int64_t dim, bool keepdim) {
  const Tensor indices = arg_extreme("max", true, x, dim, keepdim);
  return {x.ndim() == 0 ? x.clone() : max(x, {dim}, keepdim), indices};
}

ValuesAndIndices<Tensor> min_along(const Tensor& x, int64_t dim, bool keepdim) {
  const Tensor indices = arg_extreme("min", false, x, dim, keepdim);
  return {x.ndim() == 0 ? x.clone() : min(x, {dim}, keepdim), indices};
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  common_device("sum_to", {&x});
  return sum_to(x, shape, x.dtype());
}

Tensor sum_to(const Tensor& x, const Shape& shape, DType dtype) {
  common_device("sum_to", {&x});
  require<DTypeError>(dtype == x.dtype() || (dtype == f32 && size_of(x.dtype()) == 2),
                      "sum_to: expected x's dtype, or f32 for a half type, got ", dtype, " for ",
                      describe(x));
  if (x.shape() == shape) return cast(x, dtype);
  require<ShapeError>(broadcast_shapes(shape, x.shape(), "sum_to") == x.shape(), "sum_to: ", shape,
                      " does not broadcast to ", x.shape());
  Shape axes;
  const int added = x.ndim() - shape.ndim();
  for (int dim = 0; dim < x.ndim(); ++dim)
    if (dim < added || (shape[dim - added] == 1 && x.shape()[dim] != 1)) axes.push_back(dim);
  // Shapes that differ only by leading extents of 1 need no sum.
  if (axes.empty()) return cast(x.view(shape), dtype);
  return reduce("sum_to", Reduction::sum, x, axes, true, is_floating(dtype) ? dtype : i64).view(shape);
}

}  // namespace tessera::ops
