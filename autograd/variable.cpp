#include "autograd/variable.h"

#include <algorithm>
#include <atomic>

#include "autograd/graph/node.h"

namespace tessera {
namespace {

std::atomic<int64_t> next_post_accumulate_hook{1};

void require_differentiable(const Tensor& value, const std::string& name) {
  require<DTypeError>(is_floating(value.dtype()),
                      "a Variable that requires a gradient needs a floating dtype, got ", describe(value),
                      name.empty() ? "" : " for '" + name + "'", "; convert it first: x.to(f32)");
}

/// Makes `x` a leaf that requires a gradient. Its node is created now: threads that share the leaf then only
/// read it.
void make_differentiable(VariableImpl& x) {
  x.requires_grad = true;
  if (!x.history.node) x.history = Edge(intrusive_ptr<Node>(new LeafNode(&x)), 0);
}

/// Separates `x` from its base.
void clear_base(VariableImpl& x) {
  x.base = nullptr;
  x.view = ViewKind::none;
}

}  // namespace

VariableImpl::~VariableImpl() {
  if (!history.node) return;
  if (is_leaf) {
    history.node->as_leaf()->leaf = nullptr;
  } else if (retains_grad) {
    std::erase_if(*history.node->retained_variables,
                  [this](const Node::Retained& r) { return r.variable == this; });
  }
}

void Variable::throw_undefined() {
  throw ValueError(
      "an undefined Variable was used where one with a value is needed; grad() is undefined before the first "
      "backward and after zero_grad()");
}

Variable::Variable(Tensor value) {
  if (value.defined()) impl_ = make_intrusive<VariableImpl>(std::move(value));
}

Variable Variable::leaf(Tensor value, std::string name) {
  require_differentiable(value, name);
  Variable x(std::move(value));
  make_differentiable(x.at());
  x.impl_->name = std::move(name);
  return x;
}

Variable Variable::parameter(Tensor value, bool requires_grad, std::string name) {
  if (requires_grad) require_differentiable(value, name);
  Variable x(std::move(value));
  if (requires_grad) make_differentiable(x.at());
  x.at().is_parameter = true;
  x.impl_->name = std::move(name);
  return x;
}

Variable Variable::detach() const {
  if (!defined()) return {};
  Variable constant(value());
  constant.impl_->samples = impl_->samples;
  return constant;
}

const Variable& Variable::detach_() const {
  VariableImpl& x = at().current();
  require<AutogradError>(!x.base, "detach_: ", *this,
                         " is a view, and its base would keep the history; write ",
                         "x = x.detach() for a new constant");
  if (x.is_leaf) {
    set_requires_grad(false);
    return *this;
  }
  if (x.retains_grad)
    std::erase_if(*x.history.node->retained_variables,
                  [&](const Node::Retained& r) { return r.variable == &x; });
  x.retains_grad = false;
  x.history = Edge();
  x.is_leaf = true;
  x.requires_grad = false;
  return *this;
}

void Variable::set_requires_grad(bool requires_grad) const {
  if (requires_grad && defined() && this->requires_grad()) return;
  require<AutogradError>(is_leaf(), "set_requires_grad: ", *this, " was computed by '",
                         is_leaf() ? "" : node()->name(), "'; expected a leaf: detach it");
  if (!requires_grad) {
    impl_->requires_grad = false;
    return;
  }
  require_differentiable(value(), name());
  clear_base(*impl_);
  make_differentiable(*impl_);
}

Variable Variable::grad() const {
  return at().gradient ? Variable(impl_->gradient) : Variable();
}

void Variable::set_grad(const Variable& gradient) const {
  if (gradient.defined()) {
    require<ShapeError>(gradient.shape() == shape(), "set_grad: expected shape ", shape(), ", got ",
                        gradient.shape(), name().empty() ? "" : " for '" + name() + "'");
    require<DTypeError>(gradient.dtype() == grad_dtype(), "set_grad: expected ", grad_dtype(), ", got ",
                        gradient.dtype(), name().empty() ? "" : " for '" + name() + "'");
  }
  at().gradient = gradient.impl();
}

void Variable::set_gradient_buffer(const Tensor& buffer) const {
  if (buffer.defined()) {
    require<ShapeError>(buffer.shape() == shape(), "set_gradient_buffer: expected shape ", shape(), ", got ",
                        buffer.shape(), name().empty() ? "" : " for '" + name() + "'");
    require<DTypeError>(buffer.dtype() == grad_dtype(), "set_gradient_buffer: expected ", grad_dtype(),
                        ", got ", buffer.dtype(), name().empty() ? "" : " for '" + name() + "'");
  }
  at().gradient_buffer = buffer;
  impl_->has_external_gradient_buffer = false;
}

void Variable::set_grad_dtype(DType dtype) const {
  require<DTypeError>(is_floating(dtype), "set_grad_dtype: expected a floating dtype, got ", dtype);
  at().grad_dtype = dtype;
}

void Variable::retain_grad() const {
  require<AutogradError>(requires_grad(), "retain_grad: ", *this, " requires no gradient");
  if (is_leaf() || impl_->retains_grad) return;
  Node& node = *impl_->history.node;
  if (!node.retained_variables) node.retained_variables = std::make_unique<std::vector<Node::Retained>>();
  node.retained_variables->push_back({impl_->history.output, impl_.get()});
  impl_->retains_grad = true;
}

void Variable::set_value(Tensor value) const {
  require<AutogradError>(is_leaf(), "set_value: ", *this,
                         " was computed; expected a leaf, whose values can be replaced");
  const bool own_dtype = impl_->grad_dtype == impl_->value.dtype();
  if (own_dtype) impl_->grad_dtype = value.dtype();
  impl_->value = std::move(value);
  clear_base(*impl_);
}

HookHandle Variable::register_hook(GradientHook hook) const {
  require<AutogradError>(requires_grad(), "register_hook: ", *this, " requires no gradient");
  require<ValueError>(hook != nullptr, "register_hook: expected a function, got an empty one");
  const Edge edge = gradient_edge(*this);
  return add_hook(*edge.node, {edge.output, std::move(hook), name(), {}});
}

HookHandle Variable::register_post_accumulate_grad_hook(PostAccumulateGradHook hook) const {
  require<AutogradError>(requires_grad() && is_leaf(),
                         "register_post_accumulate_grad_hook: expected a leaf that requires a "
                         "gradient, got ",
                         *this);
  require<ValueError>(hook != nullptr,
                      "register_post_accumulate_grad_hook: expected a function, got an empty one");
  const int64_t id = next_post_accumulate_hook.fetch_add(1);
  const intrusive_ptr<Node> node = gradient_edge(*this).node;
  node->as_leaf()->post_accumulate_hooks.push_back({id, std::move(hook)});
  return HookHandle([node, id] {
    std::erase_if(node->as_leaf()->post_accumulate_hooks,
                  [id](const LeafNode::PostAccumulate& h) { return h.id == id; });
  });
}

}  // namespace tessera
