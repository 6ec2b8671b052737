#include "autograd/functions/images/pooling.h"

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/images/planes.h"
#include "tensor/ops/images/pooling.h"
#include "tensor/ops/reduction.h"

namespace tessera {
namespace {

using ops::AverageDivisor;
using ops::PoolWindow;

/// x with its last `dims` dimensions joined: (planes, elements of a plane).
Variable planes_of(const Variable& x, int dims) {
  int64_t plane = 1;
  for (int i = 1; i <= dims; ++i) plane *= x.size(-i);
  return reshape(x, {plane == 0 ? 0 : x.numel() / plane, plane});
}

/// The elements of x, of `dims` dimensions a plane, at the indices of a max pooling. Its gradient adds.
Variable elements_at(const Variable& x, const Tensor& indices, int dims) {
  const Shape shape = indices.shape();
  if (indices.numel() == 0) return Variable(Tensor::zeros(shape, x.dtype(), x.device()));
  return reshape(gather(planes_of(x, dims), 1, planes_of(Variable(indices), dims).value()), shape);
}

/// The gradient at x of a max pooling, differentiable: the transpose of `elements_at`.
Variable max_pool_gradient(const Variable& dy, const Tensor& indices, const Shape& from, int dims) {
  return record("max_pool_gradient", ops::max_pool_backward(dy.value(), indices, from, dims), {dy},
                saved(indices), [dims](Saved& s, const Incoming& ddx, const Wanted&) -> Gradients {
                  return {elements_at(ddx[0], s.tensor(0), dims)};
                });
}

ValuesAndIndices<Variable> record_max(const char* name, const Variable& x, int dims, ops::MaxPooled pooled) {
  Variable values =
      record(name, pooled.values, {x}, saved(pooled.indices),
             [dims, from = x.shape()](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
               return {max_pool_gradient(dy[0], s.tensor(0), from, dims)};
             });
  return {std::move(values), std::move(pooled.indices)};
}

ValuesAndIndices<Variable> max_pool(const char* name, const Variable& x, const PoolWindow& window) {
  return record_max(name, x, window.dims, ops::max_pool(x.value(), window));
}

ValuesAndIndices<Variable> adaptive_max_pool(const char* name, const Variable& x, int dims,
                                             const Shape& size) {
  return record_max(name, x, dims, ops::adaptive_max_pool(x.value(), dims, size));
}

Variable avg_pool(const char* name, const Variable& x, const PoolWindow& window,
                  const AverageDivisor& divisor);

Variable avg_pool_gradient(const Variable& dy, const Shape& from, const PoolWindow& window,
                           const AverageDivisor& divisor) {
  return record("avg_pool_gradient", ops::avg_pool_backward(dy.value(), from, window, divisor), {dy}, saved(),
                [window, divisor](Saved&, const Incoming& ddx, const Wanted&) -> Gradients {
                  return {avg_pool("avg_pool", ddx[0], window, divisor)};
                });
}

Variable avg_pool(const char* name, const Variable& x, const PoolWindow& window,
                  const AverageDivisor& divisor) {
  return record(name, ops::avg_pool(x.value(), window, divisor), {x}, saved(),
                [window, divisor, from = x.shape()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {avg_pool_gradient(dy[0], from, window, divisor)};
                });
}

Variable adaptive_avg_pool(const char* name, const Variable& x, int dims, const Shape& size);

Variable adaptive_avg_pool_gradient(const Variable& dy, const Shape& from, int dims, const Shape& size) {
  return record("adaptive_avg_pool_gradient", ops::adaptive_avg_pool_backward(dy.value(), from, dims, size),
                {dy}, saved(), [dims, size](Saved&, const Incoming& ddx, const Wanted&) -> Gradients {
                  return {adaptive_avg_pool("adaptive_avg_pool", ddx[0], dims, size)};
                });
}

Variable adaptive_avg_pool(const char* name, const Variable& x, int dims, const Shape& size) {
  return record(name, ops::adaptive_avg_pool(x.value(), dims, size), {x}, saved(),
                [dims, size, from = x.shape()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {adaptive_avg_pool_gradient(dy[0], from, dims, size)};
                });
}

Variable lp_pool(const char* name, const Variable& x, double p, const PoolWindow& window) {
  require<ValueError>(p != 0, name, ": expected an exponent p that is not 0, got ", p);
  int64_t elements = 1;
  for (const int64_t n : ops::entry_per_dim(name, "kernel_size", window.kernel_size, window.dims))
    elements *= n;
  const Variable averages = avg_pool(name, pow(x, p), window, {});
  return pow(averages * static_cast<double>(elements), 1 / p);
}

Variable max_unpool(const char* name, const Variable& x, const Tensor& indices, const PoolWindow& window,
                    const Shape& output_size) {
  const int dims = window.dims;
  ops::check_planes(name, x.shape(), dims);
  require<ValueError>(indices.defined(), name,
                      ": expected the indices of a max pooling, got an undefined tensor");
  require<DTypeError>(indices.dtype() == i64 || indices.dtype() == i32, name,
                      ": expected indices of i64 or i32, got ", describe(indices));
  require<ShapeError>(indices.shape() == x.shape(), name, ": expected indices of x's shape ", x.shape(),
                      ", got ", indices.shape());
  const Shape kernel = ops::entry_per_dim(name, "kernel_size", window.kernel_size, dims);
  const Shape stride =
      window.stride.empty() ? kernel : ops::entry_per_dim(name, "stride", window.stride, dims);
  const Shape padding = ops::entry_per_dim(name, "padding", window.padding, dims);
  Shape size = output_size;
  if (size.empty())
    for (int i = 0; i < dims; ++i)
      size.push_back((x.size(i - dims) - 1) * stride[i] - 2 * padding[i] + kernel[i]);
  require<ShapeError>(size.ndim() == dims, name, ": expected an output_size of ", dims, " entries, got ",
                      output_size);
  for (const int64_t extent : size)
    require<ShapeError>(extent >= 1, name, ": expected extents of at least 1, got an output of ", size);
  if (!indices.is_meta() && !indices.device().is_batched() && indices.numel() > 0) {
    const double least = ops::min(indices).item(), largest = ops::max(indices).item();
    require<IndexError>(least >= 0 && largest < static_cast<double>(size.numel()), name, ": index ",
                        static_cast<int64_t>(least < 0 ? least : largest), " is outside [0, ", size.numel(),
                        "), the elements of an output of ", size);
  }
  const Variable values = planes_of(x, dims);
  const Tensor zeros = Tensor::zeros({values.size(0), size.numel()}, x.dtype(), x.device());
  const Tensor places = indices.reshape(values.shape());
  return reshape(scatter(Variable(zeros), 1, places, values), ops::with_last(x.shape(), size));
}

PoolWindow window_of(int dims, const Shape& kernel_size, const Shape& stride, const Shape& padding,
                     const Shape& dilation, bool ceil_mode) {
  return {dims, kernel_size, stride, padding, dilation, ceil_mode};
}

/// Throws ShapeError unless x is (N, C, ...).
Shape axes_of_planes(const char* name, const Variable& x) {
  require<ShapeError>(x.ndim() >= 3, name, ": expected x (N, C, ...) of 3 dimensions or more, got ", x);
  Shape axes;
  for (int64_t i = 2; i < x.ndim(); ++i) axes.push_back(i);
  return axes;
}

}  // namespace

// clang-format off
#define TESSERA_POOLING(n)                                                                                             \
  Variable max_pool##n##d(const Variable& x, const Shape& kernel_size, const Shape& stride, const Shape& padding,      \
                          const Shape& dilation, bool ceil_mode) {                                                     \
    return max_pool("max_pool" #n "d", x, window_of(n, kernel_size, stride, padding, dilation, ceil_mode)).values;     \
  }                                                                                                                    \
  ValuesAndIndices<Variable> max_pool##n##d_with_indices(const Variable& x, const Shape& kernel_size,                  \
                                                         const Shape& stride, const Shape& padding,                    \
                                                         const Shape& dilation, bool ceil_mode) {                      \
    return max_pool("max_pool" #n "d", x, window_of(n, kernel_size, stride, padding, dilation, ceil_mode));            \
  }                                                                                                                    \
  Variable adaptive_max_pool##n##d(const Variable& x, const Shape& output_size) {                                      \
    return adaptive_max_pool("adaptive_max_pool" #n "d", x, n, output_size).values;                                    \
  }                                                                                                                    \
  ValuesAndIndices<Variable> adaptive_max_pool##n##d_with_indices(const Variable& x, const Shape& output_size) {       \
    return adaptive_max_pool("adaptive_max_pool" #n "d", x, n, output_size);                                           \
  }                                                                                                                    \
  Variable adaptive_avg_pool##n##d(const Variable& x, const Shape& output_size) {                                      \
    return adaptive_avg_pool("adaptive_avg_pool" #n "d", x, n, output_size);                                           \
  }                                                                                                                    \
  Variable lp_pool##n##d(const Variable& x, double p, const Shape& kernel_size, const Shape& stride, bool ceil_mode) { \
    return lp_pool("lp_pool" #n "d", x, p, window_of(n, kernel_size, stride, 0, 1, ceil_mode));                        \
  }                                                                                                                    \
  Variable max_unpool##n##d(const Variable& x, const Tensor& indices, const Shape& kernel_size, const Shape& stride,   \
                            const Shape& padding, const Shape& output_size) {                                          \
    return max_unpool("max_unpool" #n "d", x, indices, window_of(n, kernel_size, stride, padding, 1, false),           \
                      output_size);                                                                                    \
  }
TESSERA_POOLING(1)
TESSERA_POOLING(2)
TESSERA_POOLING(3)
#undef TESSERA_POOLING
// clang-format on

Variable avg_pool1d(const Variable& x, const Shape& kernel_size, const Shape& stride, const Shape& padding,
                    bool ceil_mode, bool count_include_pad) {
  return avg_pool("avg_pool1d", x, window_of(1, kernel_size, stride, padding, 1, ceil_mode),
                  {.count_include_pad = count_include_pad});
}
Variable avg_pool2d(const Variable& x, const Shape& kernel_size, const Shape& stride, const Shape& padding,
                    bool ceil_mode, bool count_include_pad, int64_t divisor_override) {
  return avg_pool("avg_pool2d", x, window_of(2, kernel_size, stride, padding, 1, ceil_mode),
                  {count_include_pad, divisor_override});
}
Variable avg_pool3d(const Variable& x, const Shape& kernel_size, const Shape& stride, const Shape& padding,
                    bool ceil_mode, bool count_include_pad, int64_t divisor_override) {
  return avg_pool("avg_pool3d", x, window_of(3, kernel_size, stride, padding, 1, ceil_mode),
                  {count_include_pad, divisor_override});
}

Variable global_avg_pool(const Variable& x) {
  return mean(x, axes_of_planes("global_avg_pool", x));
}

Variable global_max_pool(const Variable& x) {
  return amax(x, axes_of_planes("global_max_pool", x));
}

}  // namespace tessera
