#include "autograd/record.h"

#include "autograd/anomaly.h"

namespace tessera {

bool Inputs::recorded() const {
  if (!grad_mode()) return false;
  for (const Variable& input : list_)
    if (input.requires_grad()) return true;
  return false;
}

namespace detail {
namespace {

void link(Node& node, const Inputs& inputs) {
  node.edges.reserve(inputs.list().size());
  for (const Variable& input : inputs.list()) node.edges.push_back(gradient_edge(input));
  if ((anomaly_mode() || profiling()) && !current_scope().empty()) [[unlikely]]
    node.origin = &intern(current_scope());
}

void save(Node& node, std::span<const SavedItem> items, std::span<const Tensor> outputs) {
  node.saved.reserve(items.size());
  for (const SavedItem& item : items) node.saved.emplace_back(node.name(), item, outputs);
}

void save_outputs(Node& node, std::span<const SavedItem> items, std::span<const Tensor> outputs) {
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i].output >= 0) node.saved[i] = SavedValue(node.name(), items[i], outputs);
}

Variable computed(const intrusive_ptr<Node>& node, Tensor value, int slot) {
  Variable x(std::move(value));
  VariableImpl& impl = *x.impl();
  impl.requires_grad = true;
  impl.is_leaf = false;
  impl.history = Edge(node, slot);
  return x;
}

}  // namespace

void save_inputs(Node& node, std::span<const SavedItem> saved) {
  node.saved.reserve(saved.size());
  for (const SavedItem& item : saved)
    if (item.output < 0)
      node.saved.emplace_back(node.name(), item, std::span<const Tensor>{});
    else
      node.saved.emplace_back();
}

Variable attach(intrusive_ptr<Node> node, Tensor output, const Inputs& inputs,
                std::span<const SavedItem> saved) {
  save_inputs(*node, saved);
  return attach_computed(std::move(node), std::move(output), inputs, saved);
}

std::vector<Variable> attach(intrusive_ptr<Node> node, std::span<const Tensor> outputs, const Inputs& inputs,
                             std::span<const SavedItem> saved) {
  save_inputs(*node, saved);
  return attach_computed(std::move(node), outputs, inputs, saved);
}

Variable attach_computed(intrusive_ptr<Node> node, Tensor output, const Inputs& inputs,
                         std::span<const SavedItem> saved) {
  link(*node, inputs);
  node->outputs.push_back({output.shape(), output.dtype()});
  save_outputs(*node, saved, {&output, 1});
  return computed(node, std::move(output), 0);
}

std::vector<Variable> attach_computed(intrusive_ptr<Node> node, std::span<const Tensor> outputs,
                                      const Inputs& inputs, std::span<const SavedItem> saved) {
  link(*node, inputs);
  for (const Tensor& output : outputs) node->outputs.push_back({output.shape(), output.dtype()});
  save_outputs(*node, saved, outputs);
  std::vector<Variable> results;
  results.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    results.push_back(is_floating(outputs[i].dtype()) ? computed(node, outputs[i], static_cast<int>(i))
                                                      : Variable(outputs[i]));
  return results;
}

void mark_as_view(const Variable& view, const Variable& base) {
  // The chain of bases is kept one long: a view of a view names the first of them.
  view.impl()->base = base.impl()->base ? base.impl()->base : base.impl();
  ++view.impl()->base->live_views;
}

Variable attach_view(intrusive_ptr<Node> node, Tensor output, const Variable& base) {
  Variable view = attach(std::move(node), std::move(output), Inputs{base}, {});
  mark_as_view(view, base);
  return view;
}

void check_in_place(const char* name, const Variable& x, bool recorded) {
  require<AutogradError>(
      !(x.is_parameter() && x.value().is_meta()), name, ": the parameter '", x.name(),
      "' is on meta and has no numbers to change; give it its initialiser where it is declared (see "
      "init::), or materialize it first");
  if (!recorded) return;
  require<AutogradError>(
      !(x.is_leaf() && x.requires_grad()), name, ": the leaf ",
      x.name().empty() ? to_string(x) : "'" + x.name() + "' " + to_string(x),
      " requires a gradient and cannot be changed in place while operations are recorded; use "
      "NoGrad, or init:: for a parameter's first numbers");
  require<AutogradError>(
      !x.impl()->base && x.impl()->live_views == 0, name, ": ", x,
      x.impl()->base ? " is a view of another Variable" : " has views that are still in use",
      ": changing it in place would change what they were computed from; clone it first");
}

void attach_in_place(intrusive_ptr<Node> node, const Variable& x, const Inputs& inputs,
                     std::span<const SavedItem> saved) {
  link(*node, inputs);
  const Tensor output = x.value();
  node->outputs.push_back({output.shape(), output.dtype()});
  save(*node, saved, {&output, 1});
  VariableImpl& impl = *x.impl();
  impl.requires_grad = true;
  impl.is_leaf = false;
  impl.history = Edge(std::move(node), 0);
}

}  // namespace detail
}  // namespace tessera
