#include "autograd/graph/node.h"

#include <atomic>

namespace tessera {
namespace {

std::atomic<uint64_t> next_sequence{1};

/// Nodes without references: a list on the stack of this thread's outermost release, null when none runs.
thread_local std::vector<Node*>* unreferenced_nodes = nullptr;

}  // namespace

Edge::Edge() = default;
Edge::Edge(intrusive_ptr<Node> target, int output) : node(std::move(target)), output(output) {}
Edge::Edge(const Edge&) = default;
Edge::Edge(Edge&&) noexcept = default;
Edge& Edge::operator=(const Edge&) = default;
Edge& Edge::operator=(Edge&&) noexcept = default;
Edge::~Edge() = default;

Node::Node(const char* name)
    : name_(name), sequence_(next_sequence.fetch_add(1, std::memory_order_relaxed)) {}

void Node::destroy() {
  if (unreferenced_nodes) {
    unreferenced_nodes->push_back(this);
    return;
  }
  std::vector<Node*> queue{this};
  unreferenced_nodes = &queue;
  while (!queue.empty()) {
    Node* node = queue.back();
    queue.pop_back();
    delete node;  // releases the nodes of its inputs, which are queued here
  }
  unreferenced_nodes = nullptr;
}

void Node::release_saved() {
  for (SavedValue& value : saved) {
    saved_released |= value.was_defined();
    value.release();
  }
}

void Node::drop_produced() {
  for (SavedValue& value : saved) value.drop_produced();
}

Edge gradient_edge(const Variable& x) {
  if (!x.requires_grad()) return {};
  return x.impl()->history;
}

namespace {

/// Moves the hooks of output `output` of `from` to the output to which `to` leads.
void move_hooks(Node& from, int output, const Edge& to) {
  if (!from.has_hooks()) return;
  if (!to.node->hooks) to.node->hooks = std::make_shared<Node::Hooks>();
  std::erase_if(*from.hooks, [output, &to](const std::shared_ptr<Node::Hook>& hook) {
    if (hook->output != output) return false;
    hook->output = to.output;
    hook->list = to.node->hooks;
    to.node->hooks->push_back(hook);
    return true;
  });
}

/// Moves the gradient that `x` retains to the output to which `to` leads.
void move_retained(VariableImpl& x, Node& from, const Edge& to) {
  std::erase_if(*from.retained_variables, [&x](const Node::Retained& r) { return r.variable == &x; });
  if (!to.node->retained_variables)
    to.node->retained_variables = std::make_unique<std::vector<Node::Retained>>();
  to.node->retained_variables->push_back({to.output, &x});
}

}  // namespace

void set_history(VariableImpl& x, Edge edge) {
  const Edge before = std::exchange(x.history, std::move(edge));
  if (before.node) {
    move_hooks(*before.node, before.output, x.history);
    if (x.retains_grad) move_retained(x, *before.node, x.history);
    if (LeafNode* leaf = before.node->as_leaf()) leaf->leaf = nullptr;
  }
  x.requires_grad = true;
  x.is_leaf = false;
  x.history_version = x.change_version = x.value.version();
}

}  // namespace tessera
