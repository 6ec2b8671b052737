#include "tensor/ops/indexing/sorting.h"

#include "tensor/batched/rules.h"
#include "tensor/cpu/indexing/sorting.h"
#include "tensor/cuda/indexing/scans.h"
#include "tensor/cuda/indexing/sorting.h"
#include "tensor/ops/at_least_1d.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/ops/indexing/running_extreme.h"
#include "tensor/ops/kernel.h"
#include "tensor/ops/reduction.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, int64_t, bool)> sort_kernel{
    "sort", &kernels::cpu::sort, TESSERA_CUDA_KERNEL(kernels::cuda::sort),
    batched::along<&kernels::cpu::sort>};
constexpr Kernel<void(const Tensor&, const Tensor&, int64_t)> cumsum_kernel{
    "cumsum", &kernels::cpu::cumsum, TESSERA_CUDA_KERNEL(kernels::cuda::cumsum),
    batched::along<&kernels::cpu::cumsum>};
constexpr Kernel<void(bool, const Tensor&, const Tensor&, int64_t)> running_extreme_kernel{
    "running_extreme", &kernels::cpu::running_extreme, TESSERA_CUDA_KERNEL(kernels::cuda::running_extreme),
    batched::along<&kernels::cpu::running_extreme>};

/// The first `k` of the order along `dim`.
Sorted first_of_order(const char* name, const Tensor& x, int64_t k, int64_t dim, bool descending) {
  const Device device = common_device(name, {&x});
  dim = normalize_dim(dim, x.ndim(), name);
  Shape shape = x.shape();
  const int64_t extent = shape.empty() ? 1 : shape[dim];
  if (k < 0) k = extent;
  require<ValueError>(k <= extent, name, ": expected k of at most ", extent, " along dimension ", dim, " of ",
                      shape, ", got ", k);
  if (!shape.empty()) shape[dim] = k;
  require<ValueError>(!shape.empty() || k == 1, name, ": expected k = 1 for a 0-dim tensor, got ", k);
  Sorted result{Tensor::empty(shape, x.dtype(), device), Tensor::empty(shape, i64, device)};
  sort_kernel(device, at_least_1d(x), at_least_1d(result.values), at_least_1d(result.indices), dim,
              descending);
  return result;
}

}  // namespace

Sorted sort(const Tensor& x, int64_t dim, bool descending) {
  return first_of_order("sort", x, -1, dim, descending);
}

Tensor argsort(const Tensor& x, int64_t dim, bool descending) {
  return first_of_order("argsort", x, -1, dim, descending).indices;
}

Sorted topk(const Tensor& x, int64_t k, int64_t dim, bool largest) {
  require<ValueError>(k >= 0, "topk: expected k of at least 0, got ", k);
  return first_of_order("topk", x, k, dim, largest);
}

Sorted median_along(const Tensor& x, int64_t dim, bool keepdim) {
  common_device("median", {&x});
  dim = normalize_dim(dim, x.ndim(), "median");
  const Tensor row = at_least_1d(x);
  const int64_t extent = row.size(dim);
  require<ShapeError>(extent > 0, "median: expected at least one element along dimension ", dim, ", got ",
                      describe(x));
  const Sorted sorted = sort(row, dim);
  Shape kept = row.shape();
  kept[dim] = 1;
  Tensor position = full(kept, (extent - 1) / 2, i64, x.device());
  if (is_floating(x.dtype())) {  // NaNs are last: the first of them, if there is one
    const Tensor nans = sum(cast(isnan(sorted.values), i64), {dim}, true);
    position = where(greater(nans, Scalar(0)), sub(Scalar(extent), nans), position);
  }
  const Sorted middle{gather(sorted.values, dim, position), gather(sorted.indices, dim, position)};
  if (keepdim && x.ndim() > 0) return middle;
  return {middle.values.squeeze(dim), middle.indices.squeeze(dim)};
}

Tensor median(const Tensor& x) {
  common_device("median", {&x});
  return median_along(x.reshape({x.numel()}), 0).values;
}

Tensor cumsum(const Tensor& x, int64_t dim) {
  const Device device = common_device("cumsum", {&x});
  dim = normalize_dim(dim, x.ndim(), "cumsum");
  Tensor result = Tensor::empty(x.shape(), is_floating(x.dtype()) ? x.dtype() : i64, device);
  cumsum_kernel(device, at_least_1d(x), at_least_1d(result), dim);
  return result;
}

Tensor running_extreme(const Tensor& x, int64_t dim, bool largest) {
  const char* name = largest ? "cummax" : "cummin";
  const Device device = common_device(name, {&x});
  dim = normalize_dim(dim, x.ndim(), name);
  Tensor indices = Tensor::empty(x.shape(), i64, device);
  running_extreme_kernel(device, largest, at_least_1d(x), at_least_1d(indices), dim);
  return indices;
}

}  // namespace tessera::ops
