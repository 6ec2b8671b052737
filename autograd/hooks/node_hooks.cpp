// Hooks of an operation: before its rule, with the grad_outputs, and after it, with the gradients of its
// inputs.

#include "autograd/hooks/node_hooks.h"

#include <algorithm>

#include "autograd/graph/rule_checks.h"

namespace tessera {
namespace {

template <class List>
std::vector<Variable> as_vector(const List& list) {
  std::vector<Variable> copy;
  for (size_t i = 0; i < list.size(); ++i) copy.push_back(list[i]);
  return copy;
}

/// Puts what a hook returned in the place of `list`.
template <class List>
void replace(const Node& node, const Node::Hook& hook, List& list, std::vector<Variable> replaced) {
  if (replaced.empty()) return;
  require<AutogradError>(replaced.size() == list.size(), "a hook of '", node.name(), "' was given ",
                         list.size(), " gradients and returned ", replaced.size(),
                         "; return as many, or an empty list to change none");
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].defined() && replaced[i].defined()) check_replaced(node, hook, list[i], replaced[i]);
    list[i] = std::move(replaced[i]);
  }
}

}  // namespace

HookHandle add_hook(Node& node, Node::Hook hook) {
  std::shared_ptr<Node::Hooks>& list = node.hooks;
  if (!list) list = std::make_shared<Node::Hooks>();
  hook.list = list;
  list->push_back(std::make_shared<Node::Hook>(std::move(hook)));
  return HookHandle([registered = std::weak_ptr<Node::Hook>(list->back())] {
    const std::shared_ptr<Node::Hook> found = registered.lock();
    if (!found) return;
    if (const std::shared_ptr<Node::Hooks> hooks = found->list.lock()) std::erase(*hooks, found);
  });
}

HookHandle Node::register_prehook(NodePreHook hook) {
  require<ValueError>(hook != nullptr, "register_prehook: expected a function, got an empty one");
  return add_hook(*this, {-1, {}, "", {}, std::move(hook), {}});
}

HookHandle Node::register_hook(NodeHook hook) {
  require<ValueError>(hook != nullptr, "register_hook: expected a function, got an empty one");
  return add_hook(*this, {-1, {}, "", {}, {}, std::move(hook)});
}

void call_gradient_hooks(const Node& node, InlineVector<Variable, 1>& gradients) {
  for (const std::shared_ptr<Node::Hook>& hook : Node::Hooks(*node.hooks)) {
    if (hook->output < 0) continue;  // of the operation
    Variable& gradient = gradients[static_cast<size_t>(hook->output)];
    if (!gradient.defined()) continue;
    Variable replaced = hook->call(gradient);
    if (!replaced.defined()) continue;
    check_replaced(node, *hook, gradient, replaced);
    gradient = std::move(replaced);
  }
}

bool has_hooks_after_rule(const Node& node) {
  return node.hooks && std::any_of(node.hooks->begin(), node.hooks->end(),
                                   [](const auto& hook) { return static_cast<bool>(hook->after); });
}

InlineVector<Variable, 1> after_hooks_before_rule(const Node& node, InlineVector<Variable, 1> grad_outputs) {
  for (const std::shared_ptr<Node::Hook>& hook : Node::Hooks(*node.hooks))
    if (hook->before) replace(node, *hook, grad_outputs, hook->before(as_vector(grad_outputs)));
  return grad_outputs;
}

void call_hooks_after_rule(const Node& node, Gradients& grad_inputs,
                           const InlineVector<Variable, 1>& grad_outputs) {
  for (const std::shared_ptr<Node::Hook>& hook : Node::Hooks(*node.hooks)) {
    if (!hook->after) continue;
    std::vector<Variable> given;
    for (size_t i = 0; i < grad_inputs.size(); ++i) given.push_back(grad_inputs[i]);
    replace(node, *hook, grad_inputs, hook->after(given, as_vector(grad_outputs)));
  }
}

}  // namespace tessera
