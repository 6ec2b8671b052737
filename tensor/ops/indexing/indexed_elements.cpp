#include "tensor/ops/indexing/indexed_elements.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "tensor/batched/rules.h"
#include "tensor/cpu/indexing/advanced_indexing.h"
#include "tensor/cpu/indexing/indexing.h"
#include "tensor/cuda/indexing/advanced_indexing.h"
#include "tensor/cuda/indexing/indexing.h"
#include "tensor/ops/indexing/index_plan.h"
#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Tensor& x, int first, int count, const Tensor& positions, const Tensor& out)>
    read_kernel{"index", &kernels::cpu::read_positions, TESSERA_CUDA_KERNEL(kernels::cuda::read_positions),
                batched::one_by_one<&kernels::cpu::read_positions>};
constexpr Kernel<void(const Tensor& value, const Tensor& positions, int first, int count, const Tensor& out)>
    write_kernel{"index_put_", &kernels::cpu::write_positions,
                 TESSERA_CUDA_KERNEL(kernels::cuda::write_positions),
                 batched::one_by_one<&kernels::cpu::write_positions>};
constexpr Kernel<void(const Tensor& source, int64_t dim, const Tensor& index, const Tensor& out)> add_kernel{
    "index_put_", &kernels::cpu::index_add, TESSERA_CUDA_KERNEL(kernels::cuda::index_add),
    batched::one_by_one<&kernels::cpu::index_add>};
constexpr Kernel<void(const Tensor& mask, Tensor& positions)> true_positions_kernel{
    "nonzero", &kernels::cpu::true_positions, TESSERA_CUDA_KERNEL(kernels::cuda::true_positions)};

/// Dimensions `dims` as neighbours, from `first` on: in place, or in front where they are apart.
struct Arrangement {
  int first = 0, count;
  Shape order;  // dimension i of the arranged tensor is dimension order[i]
  Arrangement(int ndim, unsigned dims) : count(std::popcount(dims)) {
    const unsigned from_first = dims == 0 ? 0 : dims >> std::countr_zero(dims);
    const bool apart = (from_first & (from_first + 1)) != 0;
    if (!apart) first = dims == 0 ? 0 : std::countr_zero(dims);
    for (int d = 0; apart && d < ndim; ++d)
      if (dims >> d & 1u) order.push_back(d);
    for (int d = 0; d < ndim; ++d)
      if (!apart || !(dims >> d & 1u)) order.push_back(d);
  }
};

int64_t product(const Shape& shape, int begin, int end) {
  int64_t n = 1;
  for (int i = begin; i < end; ++i) n *= shape[i];
  return n;
}

unsigned all_dims(const Tensor& x) {
  return (1u << x.ndim()) - 1;
}

void require_mask_of(const char* where, const Tensor& x, const Tensor& mask) {
  common_device(where, {&x, &mask});
  require<DTypeError>(mask.dtype() == boolean, where, ": expected a mask of bool, got ", describe(mask));
  require<ShapeError>(broadcast_shapes(x.shape(), mask.shape(), where) == x.shape(), where, ": the mask ",
                      mask.shape(), " does not broadcast to ", x.shape());
}

void accumulate_elements(const Tensor& arranged, const Arrangement& dims, const Tensor& positions,
                         const Tensor& value) {
  const Tensor target = arranged.contiguous();
  const int end = dims.first + dims.count;
  const int64_t outer = product(target.shape(), 0, dims.first),
                inner = product(target.shape(), end, target.ndim());
  add_kernel(target.device(), value.contiguous().view({outer, positions.numel(), inner}), 1,
             positions.view({positions.numel()}),
             target.view({outer, product(target.shape(), dims.first, end), inner}));
  if (!arranged.is_contiguous()) arranged.copy_from(target);
}

}  // namespace

Tensor true_elements(const char* where, const Tensor& mask) {
  require<DTypeError>(mask.dtype() == boolean, where, ": expected a mask of bool, got ", describe(mask));
  if (mask.device().is_batched()) throw_no_batching_rule(where);
  require<DeviceError>(!mask.is_meta(), where, ": the size of the result depends on the values of the mask ",
                       describe(mask), "; it needs a device with values, such as cpu");
  Tensor positions;
  true_positions_kernel(mask.device(), mask.contiguous(), positions);
  return positions;
}

IndexedElements elements_where(const char* where, const Tensor& x, const Tensor& mask) {
  require_mask_of(where, x, mask);
  return {true_elements(where, mask.expand(x.shape())), all_dims(x)};
}

IndexedElements elements_to_fill(const char* where, const Tensor& x, const Tensor& mask,
                                 const Tensor& source) {
  require_same_dtype(where, {&x, &source});
  require_mask_of(where, x, mask);
  if (common_device(where, {&x, &mask, &source}).is_meta())
    return {Tensor::empty({std::min(x.numel(), source.numel())}, i64, meta()), all_dims(x)};
  IndexedElements elements = elements_where(where, x, mask);
  require<ShapeError>(source.numel() >= elements.positions.numel(), where, ": the mask has ",
                      elements.positions.numel(), " true elements, the source ", source.shape(), " has ",
                      source.numel());
  return elements;
}

IndexedElements elements_along(const char* where, const Tensor& x, int64_t dim, const Tensor& index) {
  common_device(where, {&x, &index});
  require<ShapeError>(x.ndim() >= 1 && index.ndim() == 1, where,
                      ": expected x of at least one dimension and an index (n,), got ", describe(x), " and ",
                      describe(index));
  require<DTypeError>(index.dtype() == i64 || index.dtype() == i32, where,
                      ": expected an index of i64 or i32, got ", describe(index));
  std::vector<Index> indices(normalize_dim(dim, x.ndim(), where), Slice());
  indices.emplace_back(index);
  return IndexPlan(where, x.shape(), indices).elements(where, x);
}

Shape IndexedElements::shape(const Shape& x) const {
  const Arrangement arranged(x.ndim(), dims);
  Shape result;
  for (int i = 0; i < arranged.first; ++i) result.push_back(x[arranged.order[i]]);
  for (const int64_t extent : positions.shape()) result.push_back(extent);
  for (int i = arranged.first + arranged.count; i < x.ndim(); ++i) result.push_back(x[arranged.order[i]]);
  return result;
}

Tensor read_elements(const Tensor& x, const IndexedElements& elements) {
  const Device device = common_device("index", {&x, &elements.positions});
  const Tensor out = Tensor::empty(elements.shape(x.shape()), x.dtype(), device);
  const Arrangement dims(x.ndim(), elements.dims);
  read_kernel(device, x.permute(dims.order), dims.first, dims.count, elements.positions, out);
  return out;
}

void write_elements(const Tensor& x, const IndexedElements& elements, const Tensor& value, bool accumulate,
                    const char* where) {
  const Device device = common_device(where, {&x, &elements.positions, &value});
  require_same_dtype(where, {&x, &value});
  require<DTypeError>(!accumulate || (x.dtype() != u8 && x.dtype() != boolean), where,
                      ": expected a dtype other than u8 and bool to accumulate, got ", describe(x));
  const Tensor values = copy_if_overlapping(x, value.expand(elements.shape(x.shape())));
  require_distinct_elements(where, x);
  if (device.is_meta()) return;
  const Arrangement dims(x.ndim(), elements.dims);
  const Tensor arranged = x.permute(dims.order);
  if (!accumulate)
    write_kernel(device, values, elements.positions, dims.first, dims.count, arranged);
  else if (values.numel() > 0)
    accumulate_elements(arranged, dims, elements.positions, values);
  x.bump_version();
}

}  // namespace tessera::ops
