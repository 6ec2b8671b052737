// Variable's methods that index, as those of Tensor (tensor/index.cpp), from recorded functions.

#include "tensor/index.h"

#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/indexing/indexed_elements.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/indexing/index_plan.h"
#include "tensor/ops/kernel.h"

namespace tessera {
namespace {

Variable view_of(const Variable& x, const ops::IndexPlan& plan) {
  Variable y = x;
  for (int i = 0; i < plan.step_count; ++i) {
    const ops::IndexPlan::ViewStep& s = plan.steps[i];
    if (s.kind == Index::Kind::integer)
      y = select(y, s.dim, s.start);
    else if (s.kind == Index::Kind::slice)
      y = slice(y, s.dim, s.start, s.stop, s.step);
    else
      y = unsqueeze(y, s.dim);
  }
  return y;
}

/// `value` as it is written to elements of shape `shape` in x: it then has x's dtype and broadcasts.
Variable prepare_value(const char* where, const Variable& value, const Variable& x, const Shape& shape) {
  const Shape kept = ops::assigned_shape(where, value.shape(), value.dtype(), shape, x.dtype());
  return cast(kept == value.shape() ? value : reshape(value, kept), x.dtype());
}

void write_values(const Tensor& x, const Tensor& value, bool accumulate) {
  if (x.is_meta()) return;
  if (accumulate)
    ops::add_(x, value);
  else
    x.copy_from(value.expand(x.shape()));
}

/// All elements of x become `value`, or x + value.
void write_all(const Variable& x, const Variable& value, bool accumulate) {
  // A base receives its gradient from `write_view`: zeros through the view would only be added to it.
  const bool is_view = static_cast<bool>(x.impl()->base);
  record_in_place(
      "index_put_", x, {x, value}, saved(), [&] { write_values(x.value(), value.value(), accumulate); },
      [=, from = value.shape()](Saved&, const Incoming& dy, const Wanted& wanted) -> Gradients {
        Gradients gradients(2);
        if (wanted[0] && accumulate) gradients[0] = dy[0];
        if (wanted[0] && !accumulate && !is_view) gradients[0] = Tensor::zeros_like(dy[0].value());
        if (wanted[1]) gradients[1] = sum_to(dy[0], from);
        return gradients;
      });
}

}  // namespace

Variable Variable::operator[](int64_t i) const {
  return tessera::select(*this, 0, i);
}

Variable Variable::operator[](const Slice& range) const {
  const Index indices[] = {range};
  return view_of(*this, ops::IndexPlan("operator[]", shape(), indices));
}

const Variable Variable::index(std::span<const Index> indices) const {
  const ops::IndexPlan plan("index", shape(), indices);
  const Variable view = view_of(*this, plan);
  return plan.tensor_count == 0 ? view : read_elements(view, plan.elements("index", view.value()));
}

void index_put_(const char* where, const Variable& x, std::span<const Index> indices, const Variable& value,
                bool accumulate) {
  common_device(where, {&x.value(), &value.value()});
  const ops::IndexPlan plan(where, x.shape(), indices);
  const Variable view = view_of(x, plan);
  if (plan.tensor_count == 0)
    return write_all(view, prepare_value(where, value, view, view.shape()), accumulate);
  const ops::IndexedElements elements = plan.elements(where, view.value());
  write_elements_(where, view, elements, prepare_value(where, value, view, elements.shape(view.shape())),
                  accumulate);
}

void Variable::index_put_(std::span<const Index> indices, const Variable& value, bool accumulate) const {
  tessera::index_put_("index_put_", *this, indices, value, accumulate);
}

void Variable::index_put_(std::span<const Index> indices, const Scalar& value, bool accumulate) const {
  if (!Inputs{*this}.recorded())  // as a Tensor: it may need less than a list of positions
    return record_in_place(
        "index_put_", *this, {*this}, saved(), [&] { this->value().index_put_(indices, value, accumulate); },
        [](Saved&, const Incoming&, const Wanted&) -> Gradients { return {}; });
  index_put_(indices, Variable(ops::full({}, value, dtype(), device())), accumulate);
}

const Variable Variable::index(std::initializer_list<Index> indices) const {
  return index(std::span<const Index>(indices.begin(), indices.size()));
}
void Variable::index_put_(std::initializer_list<Index> indices, const Variable& value,
                          bool accumulate) const {
  index_put_(std::span<const Index>(indices.begin(), indices.size()), value, accumulate);
}
void Variable::index_put_(std::initializer_list<Index> indices, const Scalar& value, bool accumulate) const {
  index_put_(std::span<const Index>(indices.begin(), indices.size()), value, accumulate);
}

void Variable::operator=(const Variable& value) && {
  index_put_(std::span<const Index>(), value);
}

void Variable::assign(const Scalar& value) const {
  index_put_(std::span<const Index>(), value);
}

}  // namespace tessera
