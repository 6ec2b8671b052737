// In-place changes and views: which histories a change replaces. A view and its base are two Variables on one
// storage. Writing a view makes the base the result of "write_view" of the old base and the writing
// operation, and the view a view of the new base. Other views of the base take a new history at their next
// use.

#include "autograd/graph/leaf_accumulation.h"
#include "autograd/record.h"
#include "autograd/views/sample_layout.h"
#include "autograd/views/view_positions.h"

namespace tessera {
namespace {

/// How messages name a Variable.
std::string named(const Variable& x) {
  return x.name().empty() ? to_string(x) : "'" + x.name() + "' " + to_string(x);
}

/// Whether several elements share a position in memory, as in the views of `expand`.
bool repeats_elements(const Tensor& x) {
  for (int i = 0; i < x.ndim(); ++i)
    if (x.strides()[i] == 0 && x.shape()[i] > 1) return true;
  return false;
}

[[noreturn]] void throw_in_place_error(const char* name, const Variable& x, const std::string& reason) {
  throw AutogradError(text(name, ": ", named(x), " ", reason));
}

void require_writable_view(const char* name, const Variable& x) {
  const VariableImpl& impl = *x.impl();
  if (impl.view == ViewKind::unrecorded_constant || impl.view == ViewKind::unrecorded_differentiable)
    throw_in_place_error(
        name, x,
        "is a view that was made under NoGrad: it is ambiguous whether the change belongs to the history "
        "of its base; make the view while operations are recorded, change it under NoGrad, or clone it "
        "first");
  if (impl.view == ViewKind::one_of_several)
    throw_in_place_error(
        name, x,
        "is a view of another Variable and one of several results of one operation (split); change a view "
        "made by narrow or select, or clone it first");
  if (impl.view == ViewKind::of_custom_function)
    throw_in_place_error(name, x,
                         "is a result of a custom function in the memory of its input, or a view of one: the "
                         "change would leave out the function's backward; clone it first");
  for (intrusive_ptr<VariableImpl> next = impl.base; next; next = next->base) {
    const Variable base(next);
    if (base.is_leaf() && base.requires_grad())
      throw_in_place_error(
          name, x,
          "is a view of the leaf " + named(base) +
              ", which requires a gradient and cannot be changed in place while operations are recorded; "
              "use NoGrad");
    if (repeats_elements(x.value()) || repeats_elements(base.value()))
      throw_in_place_error(name, x, "has one element at several positions (expand); clone it first");
  }
}

/// An edge to a new node with `result` as its one result.
template <class Rule>
Edge edge_to_new_node(const char* name, const VariableImpl& result, InlineVector<Edge, 3> inputs,
                      const Rule& rule) {
  intrusive_ptr<Node> node(new RuleNode<Rule>(name, rule));
  node->edges = std::move(inputs);
  node->outputs.push_back({result.value.shape(), result.value.dtype()});
  return Edge(std::move(node), 0);
}

/// The history of a base after a view of it was written: the view's values at its positions, the old values
/// elsewhere.
Edge edge_to_write_view(const VariableImpl& base, const VariableImpl& view, Edge before, Edge written) {
  if (view.view == ViewKind::same)
    return edge_to_new_node("write_view", base, {std::move(written)},
                            [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0]}; });
  const ViewPositions positions(base.value, view.value);
  const auto rule = [positions](Saved&, const Incoming& dy, const Wanted& wanted) -> Gradients {
    Gradients gradients(2);
    if (wanted[1]) gradients[1] = take_positions(dy[0], positions);
    if (!wanted[0]) return gradients;
    // Otherwise a tensor that is written in many steps would be copied in each of them.
    const bool reusable = !grad_mode() && !wanted.retained() && is_only_handle(dy[0]) &&
                          dy[0].value().strides() == positions.base_strides;
    if (reusable) clear_positions_in_place(dy[0], positions);
    gradients[0] = reusable ? dy[0] : clear_positions(dy[0], positions);
    return gradients;
  };
  return edge_to_new_node("write_view", base, {std::move(before), std::move(written)}, rule);
}

/// The history of `view` as a view of what its base is now.
Edge edge_to_view_of_base(const VariableImpl& view) {
  const ViewPositions positions(view.base->value, view.value);
  return edge_to_new_node("view", view, {gradient_edge(Variable(view.base))},
                          [positions](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                            return {place_at_positions(dy[0], positions)};
                          });
}

/// Removes from the chain of bases of `x` each `same` without another reference: modules with hooks that pass
/// one Variable on would make the chain long.
void shorten_base_chain(VariableImpl& x) {
  const auto is_same = [](const VariableImpl& y) { return y.view == ViewKind::same; };
  while (is_same(x) && is_same(*x.base) && x.base->use_count() == 1)
    x.base = intrusive_ptr<VariableImpl>(x.base->base);
}

}  // namespace

void VariableImpl::update_history() {
  history_version = value.version();
  const VariableImpl& source = base->current();
  // A leaf whose values were replaced (`set_value`) has another storage.
  if (!value.shares_storage(source.value)) return;
  detail::set_layout_from_base(*this);
  if (!source.requires_grad) return;
  // Without a recorded change the history stays, and with it the rules of hooks.
  if (requires_grad && source.change_version <= change_version) return;
  require<AutogradError>(view != ViewKind::of_custom_function, "the ", named(Variable(base)),
                         " was changed in place after a custom function returned a result in its memory, "
                         "which is used now; clone one of them first");
  set_history(*this, edge_to_view_of_base(*this));
}

namespace detail {

void mark_as_view(const Variable& view, const Variable& base, ViewKind kind) {
  VariableImpl& impl = *view.impl();
  VariableImpl& source = *base.impl();
  if (!grad_mode()) {
    const bool differentiable = source.view == ViewKind::unrecorded_differentiable || base.requires_grad();
    impl.view = differentiable ? ViewKind::unrecorded_differentiable : ViewKind::unrecorded_constant;
    return;
  }
  const bool keeps_kind =
      source.view == ViewKind::unrecorded_constant || source.view == ViewKind::unrecorded_differentiable ||
      source.view == ViewKind::one_of_several || source.view == ViewKind::of_custom_function;
  impl.view = keeps_kind ? source.view : kind;
  // The base of a view of a view is the first base. A `same` stays in between: the rules behind it need the
  // gradient of all its elements.
  const bool base_is_source = impl.view == ViewKind::same || source.view == ViewKind::same || !source.base;
  impl.base = base_is_source ? base.impl() : source.base;
  shorten_base_chain(source);
  impl.history_version = impl.change_version = impl.value.version();
}

void check_in_place(const char* name, const Variable& x, bool recorded) {
  require<AutogradError>(
      !(x.is_parameter() && x.value().is_meta()), name, ": the parameter '", x.name(),
      "' is on meta and has no values to change; declare it with an initialiser (see init::), or "
      "materialize it first");
  // The base of such a view has a history to change, whatever the operands are.
  if (!recorded && !(x.impl()->view == ViewKind::unrecorded_differentiable && grad_mode())) return;
  if (x.is_leaf() && x.requires_grad())
    throw_in_place_error(
        name, x,
        "is a leaf that requires a gradient and cannot be changed in place while operations are recorded; "
        "write a new Variable (x = x + y instead of x += y), or use NoGrad, or init:: for a parameter's "
        "initial values");
  require_writable_view(name, x);
}

std::vector<Edge> prepare_in_place(Node& node, const Variable& x, const Inputs& inputs,
                                   std::span<const SavedItem> saved) {
  link(node, inputs, x.device());
  save_inputs(node, saved);
  std::vector<Edge> bases;
  // A leaf whose values were replaced (`set_value`) has another storage.
  intrusive_ptr<VariableImpl> base = x.impl()->base;
  for (; base && base->value.shares_storage(x.value()); base = base->base)
    bases.push_back(gradient_edge(Variable(base)));
  return bases;
}

void attach_in_place(intrusive_ptr<Node> node, const Variable& x, std::vector<Edge> bases,
                     std::span<const SavedItem> saved) {
  VariableImpl& impl = *x.impl();
  node->outputs.push_back({impl.value.shape(), impl.value.dtype()});
  save_outputs(*node, saved, {&impl.value, 1});
  Edge written(std::move(node), 0);
  const VariableImpl* view = &impl;
  Edge history = written;
  for (Edge& before : bases) {
    VariableImpl& base = *view->base;
    history = edge_to_write_view(base, *view, std::move(before), std::move(history));
    set_history(base, history);
    view = &base;
  }
  // Behind a module's hooks the rules need the gradients as they come.
  const bool is_view_of_base = !bases.empty() && impl.view != ViewKind::same;
  set_history(impl, is_view_of_base ? edge_to_view_of_base(impl) : std::move(written));
}

}  // namespace detail
}  // namespace tessera
