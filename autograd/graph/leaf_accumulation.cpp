#include "autograd/graph/leaf_accumulation.h"

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/graph/saved.h"
#include "tensor/memory/storage_owner.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"

namespace tessera {
namespace {

bool is_same_memory(const Tensor& a, const Tensor& b) {
  return a.shares_storage(b) && a.offset() == b.offset() && a.dtype() == b.dtype();
}

}  // namespace

bool is_only_handle(const Variable& x) {
  return x.impl()->use_count() == 1 && is_only_handle(x.value());
}

const Tensor* gradient_to_add_to(const VariableImpl& leaf) {
  if (!leaf.gradient || leaf.gradient->requires_grad) return nullptr;
  return &leaf.gradient->value;
}

const Tensor* empty_gradient_buffer(const VariableImpl& leaf) {
  if (leaf.gradient || !leaf.gradient_buffer.defined()) return nullptr;
  ensure_values(*leaf.gradient_buffer.storage());
  return &leaf.gradient_buffer;
}

void add_to_leaf(VariableImpl& leaf, Variable gradient, bool create_graph) {
  if (create_graph) {
    if (gradient.dtype() != leaf.grad_dtype) gradient = cast(gradient, leaf.grad_dtype);
    if (leaf.gradient)
      gradient = add(Variable(leaf.gradient), gradient);
    else if (!is_only_handle(gradient))
      gradient = mul(gradient, Scalar(1));  // another leaf may hold it and scale it in place
    leaf.gradient = gradient.impl();
    return;
  }
  CategoryScope category(MemoryCategory::gradient);
  if (leaf.gradient) {
    // A first gradient that carries a graph (create_graph) may have other holders: it is not overwritten.
    if (leaf.gradient->requires_grad)
      leaf.gradient =
          Variable(ops::add(leaf.gradient->value, ops::cast(gradient.value(), leaf.grad_dtype))).impl();
    else if (gradient.dtype() == leaf.grad_dtype)
      ops::add_(leaf.gradient->value, gradient.value());
    else
      ops::add_(leaf.gradient->value, ops::cast(gradient.value(), leaf.grad_dtype));
    return;
  }
  if (const Tensor* buffer = empty_gradient_buffer(leaf)) {
    // A rule that took its target from `Wanted` has written to the buffer already.
    if (!is_same_memory(gradient.value(), *buffer))
      buffer->copy_from(ops::cast(gradient.value(), leaf.grad_dtype));
    leaf.gradient = Variable(*buffer).impl();
    return;
  }
  if (gradient.dtype() != leaf.grad_dtype) gradient = Variable(ops::cast(gradient.value(), leaf.grad_dtype));
  if (!is_only_handle(gradient)) gradient = Variable(gradient.value().clone());
  gradient.value().storage()->set_category(MemoryCategory::gradient);
  leaf.gradient = gradient.impl();
}

Variable sum_gradients(Variable total, const Variable& gradient, bool create_graph) {
  if (create_graph) return add(total, gradient);
  if (!is_only_handle(total) || total.dtype() != gradient.dtype())
    return Variable(ops::add(total.value(), gradient.value()));
  ops::add_(total.value(), gradient.value());
  return total;
}

}  // namespace tessera
