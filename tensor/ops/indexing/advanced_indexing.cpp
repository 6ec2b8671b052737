#include "tensor/ops/indexing/advanced_indexing.h"

#include "tensor/cpu/indexing/advanced_indexing.h"
#include "tensor/cuda/indexing/advanced_indexing.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/indexing/indexed_elements.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Tensor& positions, const Shape& shape, const Tensor& coordinates)> unravel_kernel{
    "nonzero", &kernels::cpu::unravel, TESSERA_CUDA_KERNEL(kernels::cuda::unravel)};

void copy_slices(const char* where, const Tensor& out, int64_t dim, const Tensor& index,
                 const Tensor& source) {
  const IndexedElements elements = elements_along(where, out, dim, index);
  require<ShapeError>(source.shape() == elements.shape(out.shape()), where, ": index ", index.shape(),
                      " along dimension ", dim, " of ", out.shape(), " takes ", elements.shape(out.shape()),
                      ", got ", source.shape());
  write_elements(out, elements, source, false);
}

}  // namespace

Tensor nonzero(const Tensor& x) {
  common_device("nonzero", {&x});
  const Tensor positions = true_elements("nonzero", cast(x, boolean));
  const Tensor coordinates = Tensor::empty({positions.numel(), x.ndim()}, i64, x.device());
  unravel_kernel(x.device(), positions, x.shape(), coordinates);
  return coordinates;
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  common_device("masked_select", {&x, &mask});
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), "masked_select");
  const Tensor wide = x.expand(shape);
  return read_elements(wide, elements_where("masked_select", wide, mask));
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  common_device("masked_scatter", {&x, &mask, &source});
  const IndexedElements elements = elements_to_fill("masked_scatter", x, mask, source);
  const Tensor values = source.reshape({source.numel()}).narrow(0, 0, elements.positions.numel());
  const Tensor out = x.clone();
  write_elements(out, elements, values, false);
  return out;
}

Tensor take(const Tensor& x, const Tensor& index) {
  common_device("take", {&x, &index});
  const Tensor flat = x.reshape({x.numel()});
  return read_elements(flat, elements_along("take", flat, 0, index.reshape({index.numel()})))
      .view(index.shape());
}

void index_copy_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  common_device("index_copy_", {&x, &index, &source});
  copy_slices("index_copy_", x, dim, index, source);
}

void index_fill_(const Tensor& x, int64_t dim, const Tensor& index, const Scalar& value) {
  common_device("index_fill_", {&x, &index});
  write_elements(x, elements_along("index_fill_", x, dim, index), full({}, value, x.dtype(), x.device()),
                 false);
}

Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  common_device("index_copy", {&x, &index, &source});
  const Tensor out = x.clone();
  copy_slices("index_copy", out, dim, index, source);
  return out;
}

}  // namespace tessera::ops
