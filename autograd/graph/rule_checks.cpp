#include "autograd/graph/rule_checks.h"

#include "autograd/debug/anomaly_check.h"
#include "autograd/record.h"

namespace tessera {
namespace {

void check_nan(const Node& node, size_t input, const Variable& gradient) {
  const int64_t at = detail::first_nan(gradient.value());
  if (at < 0) return;
  throw NonFiniteError(text("anomaly: the backward of '", node.name(), "' (operation #", node.sequence(),
                            node.module_name ? " in '" + *node.module_name + "'" : "",
                            ") produced NaN in the gradient of input ", input, " at element ",
                            detail::element_name(at, gradient.shape()), " of ", to_string(gradient)));
}

}  // namespace

void require_not_released(const Node& node) {
  require<AutogradError>(
      !node.saved_released, "backward through '", node.name(),
      "' a second time: the first one freed its saved values; pass {.retain_graph = true} to the first "
      "to run a graph twice");
}

void check_gradients(const Node& node, Gradients& gradients) {
  require<AutogradError>(gradients.size() == node.edges.size(), "the rule of '", node.name(), "' returned ",
                         gradients.size(), " gradients for ", node.edges.size(), " inputs");
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Edge& edge = node.edges[i];
    if (!edge.node || !gradients[i].defined()) continue;
    LeafNode* const leaf = edge.node->as_leaf();
    if (leaf && !leaf->leaf) continue;
    const Shape& expected = leaf ? leaf->leaf->value.shape() : edge.node->outputs[edge.output].shape;
    require<ShapeError>(gradients[i].shape() == expected, "the rule of '", node.name(),
                        "' returned a gradient of shape ", gradients[i].shape(), " for input ", i,
                        " of shape ", expected);
    require<DTypeError>(is_floating(gradients[i].dtype()), "the rule of '", node.name(), "' returned ",
                        gradients[i], " as the gradient of input ", i);
    if (detail::anomaly_mode()) check_nan(node, i, gradients[i]);
  }
}

void check_replaced(const Node& node, const Node::Hook& hook, const Variable& gradient,
                    const Variable& replaced) {
  const auto problem = [&] {
    const std::string& name = hook.variable_name;
    const std::string variable = !name.empty() ? "'" + name + "'" : text("the result of '", node.name(), "'");
    return text("a gradient hook of ", variable, " was given ", gradient, " and returned ", replaced);
  };
  if (replaced.shape() != gradient.shape()) throw ShapeError(problem() + ": expected the same shape");
  if (replaced.dtype() != gradient.dtype()) throw DTypeError(problem() + ": expected the same dtype");
  if (replaced.device() != gradient.device()) throw DeviceError(problem() + ": expected the same device");
}

}  // namespace tessera
