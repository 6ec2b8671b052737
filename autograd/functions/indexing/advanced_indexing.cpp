#include "autograd/functions/indexing/advanced_indexing.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/indexing/indexed_elements.h"
#include "autograd/functions/view.h"
#include "tensor/ops/kernel.h"

namespace tessera {

Variable masked_select(const Variable& x, const Tensor& mask) {
  common_device("masked_select", {&x.value(), &mask});
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), "masked_select");
  const Variable wide = broadcast_to(x, shape);
  return read_elements(wide, ops::elements_where("masked_select", wide.value(), mask));
}

Variable masked_scatter(const Variable& x, const Tensor& mask, const Variable& source) {
  common_device("masked_scatter", {&x.value(), &mask, &source.value()});
  const ops::IndexedElements elements =
      ops::elements_to_fill("masked_scatter", x.value(), mask, source.value());
  return replace_elements("masked_scatter", x, elements,
                          narrow(reshape(source, {source.numel()}), 0, 0, elements.positions.numel()));
}

Variable take(const Variable& x, const Tensor& index) {
  common_device("take", {&x.value(), &index});
  const Variable flat = reshape(x, {x.numel()});
  const ops::IndexedElements elements =
      ops::elements_along("take", flat.value(), 0, index.reshape({index.numel()}));
  return reshape(read_elements(flat, elements), index.shape());
}

Variable index_copy(const Variable& x, int64_t dim, const Tensor& index, const Variable& source) {
  if (autocast::mixes(x, source)) [[unlikely]] {
    const DType dtype = autocast::widest({x, source});
    return index_copy(autocast::in_dtype(x, dtype), dim, index, autocast::in_dtype(source, dtype));
  }
  common_device("index_copy", {&x.value(), &index, &source.value()});
  const ops::IndexedElements elements = ops::elements_along("index_copy", x.value(), dim, index);
  require<ShapeError>(source.shape() == elements.shape(x.shape()), "index_copy: index ", index.shape(),
                      " along dimension ", dim, " of ", x.shape(), " takes ", elements.shape(x.shape()),
                      ", got ", source.shape());
  return replace_elements("index_copy", x, elements, source);
}

}  // namespace tessera
