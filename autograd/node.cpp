#include "autograd/node.h"

#include <atomic>

namespace tessera {
namespace {

std::atomic<uint64_t> next_sequence{1};

/// Nodes whose last reference is gone: a list on the stack of this thread's outermost release, null when none
/// runs.
thread_local std::vector<Node*>* dead_nodes = nullptr;

}  // namespace

Edge::Edge() = default;
Edge::Edge(intrusive_ptr<Node> target, int output) : node(std::move(target)), slot(output) {}
Edge::Edge(const Edge&) = default;
Edge::Edge(Edge&&) noexcept = default;
Edge& Edge::operator=(const Edge&) = default;
Edge& Edge::operator=(Edge&&) noexcept = default;
Edge::~Edge() = default;

Node::Node(const char* name)
    : name_(name), sequence_(next_sequence.fetch_add(1, std::memory_order_relaxed)) {}

void Node::destroy() {
  if (dead_nodes) {
    dead_nodes->push_back(this);
    return;
  }
  std::vector<Node*> queue{this};
  dead_nodes = &queue;
  while (!queue.empty()) {
    Node* node = queue.back();
    queue.pop_back();
    delete node;  // releases its inputs' nodes, which queue themselves here
  }
  dead_nodes = nullptr;
}

void Node::release_saved() {
  for (SavedValue& value : saved) value.release();
  saved_released = !saved.empty();  // what saved nothing can run again
}

Edge gradient_edge(const Variable& x) {
  if (!x.requires_grad()) return {};
  VariableImpl& impl = *x.impl();
  if (impl.is_leaf && !impl.history.node) impl.history = Edge(intrusive_ptr<Node>(new LeafNode(&impl)), 0);
  return impl.history;
}

}  // namespace tessera
