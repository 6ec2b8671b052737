// In-place changes and views: which histories a change replaces. A view and its base are two Variables of one
// memory. Writing a view makes it the result of the operation that wrote, and the base the result of
// "write_view" of its old self and that; other views of the base then take their history from the base when
// it is next asked for.

#include "autograd/leaf_accumulation.h"
#include "autograd/record.h"
#include "autograd/view_window.h"

namespace tessera {
namespace {

/// How errors name a Variable.
std::string named(const Variable& x) {
  return x.name().empty() ? to_string(x) : "'" + x.name() + "' " + to_string(x);
}

/// Whether elements lie in one place: `expand` makes such views.
bool repeats_elements(const Tensor& x) {
  for (int i = 0; i < x.rank(); ++i)
    if (x.strides()[i] == 0 && x.shape()[i] > 1) return true;
  return false;
}

[[noreturn]] void refuse(const char* name, const Variable& x, const std::string& reason) {
  throw AutogradError(text(name, ": ", named(x), " ", reason));
}

void require_writable_view(const char* name, const Variable& x) {
  const VariableImpl& impl = *x.impl();
  if (impl.view == ViewKind::unrecorded || impl.view == ViewKind::severed)
    refuse(name, x,
           "is a view that was made under NoGrad: whether the change belongs to the history of its base "
           "is not known; make the view while operations are recorded, change it under NoGrad, or clone "
           "it first");
  if (impl.view == ViewKind::one_of_several)
    refuse(name, x,
           "is a view of another Variable and one of several results of one operation (split); change a view "
           "made by narrow or select, or clone it first");
  for (intrusive_ptr<VariableImpl> shown = impl.base; shown; shown = shown->base) {
    const Variable base(shown);
    if (base.is_leaf() && base.requires_grad())
      refuse(name, x,
             "is a view of the leaf " + named(base) +
                 ", which requires a gradient and cannot be changed in place while operations are recorded; "
                 "use NoGrad");
    if (repeats_elements(x.value()) || repeats_elements(base.value()))
      refuse(name, x, "shows one element in several places (expand); clone it first");
  }
}

/// A node of which `base` is the one result.
template <class Rule>
Edge result_of(const char* name, const VariableImpl& base, InlineVector<Edge, 3> inputs, const Rule& rule) {
  intrusive_ptr<Node> node(new RuleNode<Rule>(name, rule));
  node->edges = std::move(inputs);
  node->outputs.push_back({base.value.shape(), base.value.dtype()});
  return Edge(std::move(node), 0);
}

/// The base after a view of it was written: its old numbers but for the window, and there the view's.
Edge written_base(const VariableImpl& base, const VariableImpl& view, Edge before, Edge written) {
  if (view.view == ViewKind::same)
    return result_of("write_view", base, {std::move(written)},
                     [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0]}; });
  const ViewWindow window(base.value, view.value);
  const auto rule = [window](Saved&, const Incoming& dy, const Wanted& wanted) -> Gradients {
    Gradients gradients(2);
    if (wanted[1]) gradients[1] = take_window(dy[0], window);
    if (!wanted[0]) return gradients;
    // A buffer that is written step by step would otherwise be copied as a whole for each of them.
    const bool reusable = !grad_mode() && !wanted.retained() && is_sole_owner(dy[0]) &&
                          dy[0].value().strides() == window.base_strides;
    if (reusable) clear_window_in_place(dy[0], window);
    gradients[0] = reusable ? dy[0] : clear_window(dy[0], window);
    return gradients;
  };
  return result_of("write_view", base, {std::move(before), std::move(written)}, rule);
}

/// Leaves out of the bases of `x` each `same` that nothing else holds: modules with hooks that hand one
/// Variable on would make a long chain of them.
void shorten_bases(VariableImpl& x) {
  const auto passes_on = [](const VariableImpl& y) { return y.view == ViewKind::same; };
  while (passes_on(x) && passes_on(*x.base) && x.base->use_count() == 1)
    x.base = intrusive_ptr<VariableImpl>(x.base->base);
}

}  // namespace

void VariableImpl::follow_base() {
  history_version = value.version();
  // A leaf whose values were replaced (`set_value`) has another storage.
  const VariableImpl& shown = base->current();
  if (!shown.requires_grad || !value.shares_storage(shown.value)) return;
  // What nothing recorded changed keeps its history, and the rules in it that hooks stand on.
  if (requires_grad && shown.change_version <= change_version) return;
  const auto rule = [window = ViewWindow(base->value, value)](Saved&, const Incoming& dy,
                                                              const Wanted&) -> Gradients {
    return {place_window(dy[0], window)};
  };
  intrusive_ptr<Node> node(new RuleNode<decltype(rule)>("view", rule));
  node->edges.push_back(gradient_edge(Variable(base)));
  node->outputs.push_back({value.shape(), value.dtype()});
  set_history(*this, Edge(std::move(node), 0));
}

namespace detail {

void mark_as_view(const Variable& view, const Variable& base, ViewKind kind) {
  VariableImpl& impl = *view.impl();
  VariableImpl& source = *base.impl();
  if (!grad_mode()) {
    const bool severed = source.view == ViewKind::severed || base.requires_grad();
    impl.view = severed ? ViewKind::severed : ViewKind::unrecorded;
    return;
  }
  const bool stays = source.view == ViewKind::unrecorded || source.view == ViewKind::severed ||
                     source.view == ViewKind::one_of_several;
  impl.view = stays ? source.view : kind;
  // The chain of bases is kept short: a view of a view names the first of them. Behind a `same` are rules
  // that see the gradient of the whole, so it stays in between.
  const bool names_source = impl.view == ViewKind::same || source.view == ViewKind::same || !source.base;
  impl.base = names_source ? base.impl() : source.base;
  shorten_bases(source);
  impl.history_version = impl.change_version = impl.value.version();
}

void check_in_place(const char* name, const Variable& x, bool recorded) {
  require<AutogradError>(
      !(x.is_parameter() && x.value().is_meta()), name, ": the parameter '", x.name(),
      "' is on meta and has no numbers to change; give it its initialiser where it is declared (see "
      "init::), or materialize it first");
  // The base of a severed view has a history to change, whatever the operands are.
  if (!recorded && !(x.impl()->view == ViewKind::severed && grad_mode())) return;
  if (x.is_leaf() && x.requires_grad())
    refuse(name, x,
           "is a leaf that requires a gradient and cannot be changed in place while operations are recorded; "
           "use NoGrad, or init:: for a parameter's first numbers");
  require_writable_view(name, x);
}

std::vector<Edge> before_in_place(Node& node, const Variable& x, const Inputs& inputs,
                                  std::span<const SavedItem> saved) {
  link(node, inputs);
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
  Edge shown = written;
  for (Edge& before : bases) {
    VariableImpl& base = *view->base;
    shown = written_base(base, *view, std::move(before), std::move(shown));
    set_history(base, shown);
    view = &base;
  }
  set_history(impl, std::move(written));
}

}  // namespace detail
}  // namespace tessera
