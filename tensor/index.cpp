#include "tensor/index.h"

#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/indexing/index_plan.h"
#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"

namespace tessera {
namespace {

void write_view(const Tensor& view, const Tensor& value, bool accumulate) {
  if (view.is_meta()) return;
  if (accumulate)
    ops::add_(view, value);
  else
    view.copy_from(value.expand(view.shape()));
}

/// One value for the elements of one mask needs no list of them. Whether this was such a case.
bool fill_by_mask(const char* where, const ops::IndexPlan& plan, const Tensor& target, const Tensor& value) {
  const ops::IndexPlan::TensorEntry& entry = plan.tensors[0];
  if (plan.tensor_count != 1 || entry.tensor->dtype() != boolean || target.is_meta() ||
      entry.tensor->is_meta())
    return false;
  common_device(where, {&target, entry.tensor});
  Shape shape = Shape::filled(target.ndim(), 1);
  for (int d = 0; d < entry.tensor->ndim(); ++d) shape[entry.dim + d] = entry.tensor->size(d);
  require_distinct_elements(where, target);
  ops::masked_fill_(target, entry.tensor->reshape(shape), value);
  return true;
}

std::span<const Index> as_span(std::initializer_list<Index> indices) {
  return {indices.begin(), indices.size()};
}

}  // namespace

Tensor Tensor::operator[](const Slice& range) const {
  require_defined("operator[]");
  const Index indices[] = {range};
  return ops::IndexPlan("operator[]", shape_, indices).view(*this);
}

const Tensor Tensor::index(std::span<const Index> indices) const {
  require_defined("index");
  const ops::IndexPlan plan("index", shape_, indices);
  const Tensor view = plan.view(*this);
  return plan.tensor_count == 0 ? view : ops::read_elements(view, plan.elements("index", view));
}

void ops::index_put_(const char* where, const Tensor& x, std::span<const Index> indices, const Tensor& value,
                     bool accumulate) {
  common_device(where, {&x, &value});
  const IndexPlan plan(where, x.shape(), indices);
  const Tensor target = plan.view(x);
  const auto prepared = [&](const Shape& shape) {
    return cast(value.reshape(assigned_shape(where, value.shape(), value.dtype(), shape, x.dtype())),
                x.dtype());
  };
  if (plan.tensor_count == 0) return write_view(target, prepared(target.shape()), accumulate);
  if (!accumulate && value.ndim() == 0 && fill_by_mask(where, plan, target, prepared({}))) return;
  const IndexedElements elements = plan.elements(where, target);
  write_elements(target, elements, prepared(elements.shape(target.shape())), accumulate, where);
}

void Tensor::index_put_(std::span<const Index> indices, const Tensor& value, bool accumulate) const {
  ops::index_put_("index_put_", *this, indices, value, accumulate);
}

void Tensor::index_put_(std::span<const Index> indices, const Scalar& value, bool accumulate) const {
  require_defined("index_put_");
  const ops::IndexPlan plan("index_put_", shape_, indices);
  if (plan.tensor_count == 0 && !accumulate) return ops::fill_(plan.view(*this), value);
  index_put_(indices, ops::full({}, value, dtype_, device()), accumulate);
}

const Tensor Tensor::index(std::initializer_list<Index> indices) const {
  return index(as_span(indices));
}
void Tensor::index_put_(std::initializer_list<Index> indices, const Tensor& value, bool accumulate) const {
  index_put_(as_span(indices), value, accumulate);
}
void Tensor::index_put_(std::initializer_list<Index> indices, const Scalar& value, bool accumulate) const {
  index_put_(as_span(indices), value, accumulate);
}

void Tensor::operator=(const Tensor& value) && {
  index_put_(std::span<const Index>(), value);
}

void Tensor::assign(const Scalar& value) const {
  require_defined("operator=");
  ops::fill_(*this, value);
}

}  // namespace tessera
