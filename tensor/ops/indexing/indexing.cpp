#include "tensor/ops/indexing/indexing.h"

#include "tensor/batched/rules.h"
#include "tensor/cpu/indexing/indexing.h"
#include "tensor/cuda/indexing/indexing.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/indexing/scatter_multiply.h"
#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const char* where, const Tensor& index, int64_t limit)> check_kernel{
    "check_indices", &kernels::cpu::check_indices, TESSERA_CUDA_KERNEL(kernels::cuda::check_indices),
    batched::reading<&kernels::cpu::check_indices>};
constexpr Kernel<void(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& out)>
    index_select_kernel{"index_select", &kernels::cpu::index_select,
                        TESSERA_CUDA_KERNEL(kernels::cuda::index_select),
                        batched::one_by_one<&kernels::cpu::index_select>};
constexpr Kernel<void(const Tensor& source, int64_t dim, const Tensor& index, const Tensor& out)>
    index_add_kernel{"index_add", &kernels::cpu::index_add, TESSERA_CUDA_KERNEL(kernels::cuda::index_add),
                     batched::one_by_one<&kernels::cpu::index_add>};
constexpr Kernel<void(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& out)> gather_kernel{
    "gather", &kernels::cpu::gather, TESSERA_CUDA_KERNEL(kernels::cuda::gather),
    batched::one_by_one<&kernels::cpu::gather>};
constexpr Kernel<void(const Tensor& source, const Tensor& index, const Tensor& out)> scatter_kernel{
    "scatter", &kernels::cpu::scatter, TESSERA_CUDA_KERNEL(kernels::cuda::scatter),
    batched::one_by_one<&kernels::cpu::scatter>};
constexpr Kernel<void(const Tensor& source, const Tensor& index, const Tensor& out)> scatter_add_kernel{
    "scatter_add", &kernels::cpu::scatter_add, TESSERA_CUDA_KERNEL(kernels::cuda::scatter_add),
    batched::one_by_one<&kernels::cpu::scatter_add>};
constexpr Kernel<void(const Tensor& source, const Tensor& index, const Tensor& out)> scatter_multiply_kernel{
    "scatter_multiply", &kernels::cpu::scatter_multiply, TESSERA_CUDA_KERNEL(kernels::cuda::scatter_multiply),
    batched::one_by_one<&kernels::cpu::scatter_multiply>};

/// What `scatter` does with an element and the value for it.
enum class Scattering : uint8_t { replace, add, multiply };

void require_index(const char* where, const Tensor& index) {
  require<DTypeError>(index.dtype() == i64 || index.dtype() == i32, where,
                      ": expected an index of i64 or i32, got ", describe(index),
                      "; convert it first: x.to(i64)");
}

/// Shape `x` with the extents of `index` in place of dimension `dim`.
Shape replace_dim(const Shape& x, int64_t dim, const Shape& index) {
  Shape shape;
  for (int64_t i = 0; i < x.ndim(); ++i) {
    if (i != dim)
      shape.push_back(x[i]);
    else
      for (int64_t extent : index) shape.push_back(extent);
  }
  return shape;
}

/// Adds slices of `source`, which has index.numel() positions along `dim`.
void add_slices(const char* where, const Tensor& out, int64_t dim, const Tensor& index,
                const Tensor& source) {
  const Device device = common_device(where, {&out, &index, &source});
  require_index(where, index);
  require<DTypeError>(out.dtype() != u8 && out.dtype() != boolean &&
                          (out.dtype() == source.dtype() ||
                           (out.dtype() == f32 && is_floating(source.dtype()) && source.dtype() != f64)),
                      where, ": ", describe(source), " does not add to ", describe(out));
  require_distinct_elements(where, out);
  if (device.is_meta()) return;
  const Tensor target = out.contiguous();
  const Tensor ids = copy_if_overlapping(target, index).contiguous();
  check_kernel(device, where, ids, out.size(dim));
  if (source.numel() > 0)
    index_add_kernel(device, copy_if_overlapping(target, source).contiguous(), dim, ids, target);
  if (!out.is_contiguous()) return out.copy_from(target);
  out.bump_version();
}

/// Checks what gather and scatter share; returns `dim` counted from the front.
int64_t check_along(const char* where, const Tensor& x, int64_t dim, const Tensor& index) {
  require_index(where, index);
  require<ShapeError>(x.ndim() >= 1 && index.ndim() == x.ndim(), where,
                      ": expected x and index of as many dimensions, got ", describe(x), " and ",
                      describe(index));
  dim = normalize_dim(dim, x.ndim(), where);
  for (int i = 0; i < x.ndim(); ++i)
    require<ShapeError>(i == dim || index.shape()[i] <= x.shape()[i], where, ": the index ", index.shape(),
                        " is larger than ", x.shape(), " in dimension ", i);
  return dim;
}

void scatter_into(const char* where, const Tensor& out, int64_t dim, const Tensor& index,
                  const Tensor& source, Scattering how) {
  const Device device = common_device(where, {&out, &index, &source});
  require_same_dtype(where, {&out, &source});
  require<DTypeError>(how == Scattering::replace || (out.dtype() != u8 && out.dtype() != boolean), where,
                      ": expected a dtype other than u8 and bool, got ", describe(out));
  dim = check_along(where, out, dim, index);
  require<ShapeError>(source.ndim() == index.ndim(), where,
                      ": expected a source of as many dimensions as the index, ", index.ndim(), ", got ",
                      source.shape());
  Tensor values = source;
  for (int i = 0; i < index.ndim(); ++i) {
    require<ShapeError>(index.shape()[i] <= source.shape()[i], where, ": the index ", index.shape(),
                        " is larger than the source ", source.shape());
    values = values.narrow(i, 0, index.shape()[i]);
  }
  require_distinct_elements(where, out);
  if (device.is_meta()) return;
  // With `dim` last, different rows of the index write different elements.
  const Tensor ids = copy_if_overlapping(out, index).transpose(dim, -1).contiguous();
  check_kernel(device, where, ids, out.size(dim));
  (how == Scattering::add        ? scatter_add_kernel
   : how == Scattering::multiply ? scatter_multiply_kernel
                                 : scatter_kernel)(
      device, copy_if_overlapping(out, values).transpose(dim, -1).contiguous(), ids, out.transpose(dim, -1));
  out.bump_version();
}

}  // namespace

Tensor embedding(const Tensor& ids, const Tensor& weight) {
  const Device device = common_device("embedding", {&weight, &ids});
  require_index("embedding", ids);
  require<ShapeError>(weight.ndim() == 2, "embedding: expected a weight (rows, width), got ",
                      describe(weight));
  const Tensor out = Tensor::empty(replace_dim(weight.shape(), 0, ids.shape()), weight.dtype(), device);
  if (device.is_meta()) return out;
  const Tensor index = ids.contiguous();
  check_kernel(device, "embedding", index, weight.size(0));
  if (out.numel() > 0)
    index_select_kernel(device, weight.contiguous(), 0, index, out.view({ids.numel(), weight.size(1)}));
  return out;
}

void embedding_accumulate(const Tensor& out, const Tensor& dy, const Tensor& ids) {
  common_device("embedding_accumulate", {&out, &dy, &ids});
  require<ShapeError>(out.ndim() == 2 && dy.shape() == replace_dim(out.shape(), 0, ids.shape()),
                      "embedding_accumulate: ids ", ids.shape(), " and a table ", out.shape(),
                      " do not give a gradient ", dy.shape());
  add_slices("embedding_accumulate", out, 0, ids, dy.reshape({ids.numel(), out.size(1)}));
}

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  const Device device = common_device("index_select", {&x, &index});
  require_index("index_select", index);
  require<ShapeError>(x.ndim() >= 1 && index.ndim() == 1,
                      "index_select: expected x of at least one dimension and an index (n,), got ",
                      describe(x), " and ", describe(index));
  dim = normalize_dim(dim, x.ndim(), "index_select");
  const Tensor out = Tensor::empty(replace_dim(x.shape(), dim, index.shape()), x.dtype(), device);
  if (device.is_meta()) return out;
  const Tensor ids = index.contiguous();
  check_kernel(device, "index_select", ids, x.size(dim));
  if (out.numel() > 0) index_select_kernel(device, x.contiguous(), dim, ids, out);
  return out;
}

void index_add_out(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source) {
  common_device("index_add", {&out, &index, &source});
  require<ShapeError>(out.ndim() >= 1 && index.ndim() == 1, "index_add: expected an index (n,), got ",
                      describe(index), " for ", describe(out));
  dim = normalize_dim(dim, out.ndim(), "index_add");
  require<ShapeError>(source.shape() == replace_dim(out.shape(), dim, index.shape()), "index_add: index ",
                      index.shape(), " along dimension ", dim, " of ", out.shape(), " takes ",
                      replace_dim(out.shape(), dim, index.shape()), ", got ", source.shape());
  add_slices("index_add", out, dim, index, source);
}

Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  const Tensor out = x.clone();
  index_add_out(out, dim, index, source);
  return out;
}

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index) {
  const Device device = common_device("gather", {&x, &index});
  dim = check_along("gather", x, dim, index);
  const Tensor out = Tensor::empty(index.shape(), x.dtype(), device);
  if (device.is_meta()) return out;
  const Tensor ids = index.contiguous();
  check_kernel(device, "gather", ids, x.size(dim));
  gather_kernel(device, x, dim, ids, out);
  return out;
}

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  common_device("scatter", {&x, &index, &source});
  const Tensor out = x.clone();
  scatter_into("scatter", out, dim, index, source, Scattering::replace);
  return out;
}

Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  common_device("scatter_add", {&x, &index, &source});
  const Tensor out = x.clone();
  scatter_into("scatter_add", out, dim, index, source, Scattering::add);
  return out;
}

Tensor scatter_multiply(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  common_device("scatter_multiply", {&x, &index, &source});
  const Tensor out = x.clone();
  scatter_into("scatter_multiply", out, dim, index, source, Scattering::multiply);
  return out;
}

void scatter_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  scatter_into("scatter_", x, dim, index, source, Scattering::replace);
}
void scatter_(const Tensor& x, int64_t dim, const Tensor& index, const Scalar& value) {
  common_device("scatter_", {&x, &index});
  scatter_into("scatter_", x, dim, index, full({}, value, x.dtype(), x.device()).expand(index.shape()),
               Scattering::replace);
}
void scatter_add_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  scatter_into("scatter_add_", x, dim, index, source, Scattering::add);
}
void index_add_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  index_add_out(x, dim, index, source);
}

void scatter_add_out(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source) {
  scatter_into("scatter_add", out, dim, index, source, Scattering::add);
}

Tensor take_along(const Tensor& x, const Tensor& index, int64_t dim) {
  common_device("take_along", {&x, &index});
  require<ShapeError>(x.ndim() >= 1 && index.ndim() == x.ndim(),
                      "take_along: expected x and index of as many dimensions, got ", describe(x), " and ",
                      describe(index));
  dim = normalize_dim(dim, x.ndim(), "take_along");
  Shape x_shape = x.shape(), index_shape = index.shape();
  x_shape[dim] = index_shape[dim] = 1;
  Shape shared = broadcast_shapes(x_shape, index_shape, "take_along");
  shared[dim] = x.size(dim);
  const Tensor wide = x.expand(shared);
  shared[dim] = index.size(dim);
  return gather(wide, dim, index.expand(shared));
}

}  // namespace tessera::ops
