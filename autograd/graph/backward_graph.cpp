#include "autograd/graph/backward_graph.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace tessera {
namespace {
std::atomic<uint64_t> next_id{1};
}

BackwardGraph::BackwardGraph() : id_(next_id.fetch_add(1)) {}

BackwardGraph::~BackwardGraph() {
  for (State& state : states_)
    if (state.index_is_in_node) state.node->engine_id.store(0, std::memory_order_release);
}

uint32_t BackwardGraph::index_of(const intrusive_ptr<Node>& node) {
  uint64_t stored_id = node->engine_id.load(std::memory_order_relaxed);
  if (stored_id == id_) return node->state_index;
  if (!indices_.empty())
    if (const auto found = indices_.find(node.get()); found != indices_.end()) return found->second;
  const auto index = static_cast<uint32_t>(states_.size());
  State state;
  state.node = node;
  state.incoming.resize(std::max<size_t>(node->outputs.size(), 1));
  state.index_is_in_node =
      stored_id == 0 && node->engine_id.compare_exchange_strong(stored_id, id_, std::memory_order_acquire);
  if (state.index_is_in_node)
    node->state_index = index;
  else
    indices_.emplace(node.get(), index);
  states_.push_back(std::move(state));
  return index;
}

/// With an explicit stack, children before parents.
void BackwardGraph::discover(uint32_t root, bool all_leaves) {
  if (std::exchange(states_[root].visited, true)) return;
  std::vector<std::pair<uint32_t, size_t>> stack{{root, 0}};  // a node and its next input to visit
  while (!stack.empty()) {
    auto& [index, input] = stack.back();
    const intrusive_ptr<Node> node = states_[index].node;
    if (input == node->edges.size()) {
      finish_discovery(index, all_leaves);
      stack.pop_back();
      continue;
    }
    const size_t i = input++;
    if (!follows_edge(states_[index], i)) continue;
    const intrusive_ptr<Node>& child = node->edges[i].node;
    const uint32_t child_index = index_of(child);
    if (std::exchange(states_[child_index].visited, true)) continue;
    stack.emplace_back(child_index, 0);
  }
}

void BackwardGraph::finish_discovery(uint32_t index, bool all_leaves) {
  State& state = states_[index];
  if (LeafNode* leaf = state.node->as_leaf())
    state.wanted_leaf |= all_leaves && leaf->leaf && leaf->leaf->requires_grad;
  state.needed = state.wanted_leaf || state.captures;
  for (size_t i = 0; i < state.node->edges.size(); ++i) {
    if (!follows_edge(state, i)) continue;
    State& child = states_[known_index(*state.node->edges[i].node)];
    if (!child.needed) continue;
    state.needed = true;
    ++child.dependencies;
  }
}

}  // namespace tessera
