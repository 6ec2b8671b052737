#include "tools/cuda_sim/runtime/graph/graph.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "tools/cuda_sim/runtime/state/runtime.h"

namespace tessera::cuda_sim {

namespace {

std::atomic<uint64_t> node_count{0};

}  // namespace

GraphNode* Graph::add(NodeParameters parameters, std::vector<GraphNode*> dependencies) {
  auto node = std::make_unique<GraphNode>();
  node->graph = this;
  node->number = ++node_count;
  node->parameters = std::move(parameters);
  node->dependencies = std::move(dependencies);
  nodes.push_back(std::move(node));
  return nodes.back().get();
}

GraphNode* Graph::find(const void* node) const {
  const auto it = std::ranges::find_if(nodes, [&](const auto& one) { return one.get() == node; });
  return it == nodes.end() ? nullptr : it->get();
}

std::vector<GraphNode*> Graph::in_order() const {
  std::map<const GraphNode*, size_t> open;  // dependencies that are not yet in the result
  std::map<const GraphNode*, std::vector<GraphNode*>> dependents;
  std::vector<GraphNode*> result;
  for (const auto& node : nodes) {
    open[node.get()] = node->dependencies.size();
    for (const GraphNode* before : node->dependencies) dependents[before].push_back(node.get());
    if (node->dependencies.empty()) result.push_back(node.get());
  }
  for (size_t i = 0; i < result.size(); ++i)
    for (GraphNode* next : dependents[result[i]])
      if (--open[next] == 0) result.push_back(next);
  return result;
}

bool Graph::is_acyclic() const {
  return in_order().size() == nodes.size();
}

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>();
  std::map<const GraphNode*, GraphNode*> copies;
  for (const auto& node : nodes) {
    NodeParameters parameters = node->parameters;
    if (auto* child = std::get_if<ChildParameters>(&parameters)) {
      child->graph = child->graph->clone();
      child->graph->is_child = true;
    }
    GraphNode* made = copy->add(std::move(parameters), {});
    made->original = node->number;
    copies[node.get()] = made;
  }
  for (const auto& node : nodes)
    for (const GraphNode* before : node->dependencies)
      copies[node.get()]->dependencies.push_back(copies[before]);
  return copy;
}

GraphExec::GraphExec(const Graph& graph) {
  append(graph, {});
  find_branches();
}

std::vector<size_t> GraphExec::append(const Graph& graph, const std::vector<size_t>& before) {
  std::map<const GraphNode*, size_t> index_of;
  std::map<const GraphNode*, bool> has_dependents;
  for (const GraphNode* node : graph.in_order()) {
    std::vector<size_t> dependencies;
    for (const GraphNode* one : node->dependencies) {
      dependencies.push_back(index_of.at(one));
      has_dependents[one] = true;
    }
    if (dependencies.empty()) dependencies = before;
    NodeParameters parameters = node->parameters;
    if (const auto* child = std::get_if<ChildParameters>(&parameters)) {
      dependencies = append(*child->graph, dependencies);
      parameters = EmptyParameters{};
    }
    nodes.push_back({.number = node->number,
                     .parameters = std::move(parameters),
                     .dependencies = std::move(dependencies)});
    index_of[node] = nodes.size() - 1;
  }
  std::vector<size_t> last;
  for (const auto& [node, index] : index_of)
    if (!has_dependents[node]) last.push_back(index);
  return last.empty() ? before : last;
}

void GraphExec::find_branches() {
  // A node goes on with the branch of a dependency that no other node goes on with.
  std::vector<bool> is_continued(nodes.size(), false);
  branches = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes[i];
    node.is_last = true;
    const auto it = std::ranges::find_if(node.dependencies, [&](size_t one) { return !is_continued[one]; });
    if (it == node.dependencies.end()) {
      node.branch = branches++;
    } else {
      node.branch = nodes[*it].branch;
      is_continued[*it] = true;
    }
    for (const size_t one : node.dependencies) nodes[one].is_last = false;
  }
}

GraphExec::Node* GraphExec::find(uint64_t number) {
  const auto it = std::ranges::find(nodes, number, &Node::number);
  return it == nodes.end() ? nullptr : &*it;
}

void GraphExec::launch(Runtime& runtime, Scheduler::Lock& lock, Stream& stream) {
  while (static_cast<int>(chains.size()) + 1 < branches)
    chains.push_back(runtime.log.new_chain("branch " + std::to_string(chains.size() + 1) + " of a graph",
                                           OperationLog::ChainKind::branch));
  std::vector<Operation> before = runtime.implicit_dependencies(stream);
  before.push_back(runtime.log.last_of(stream.chain));
  before.push_back(last_launch);
  std::vector<Operation> operations(nodes.size()), last;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    std::vector<Operation> after = node.dependencies.empty() ? before : std::vector<Operation>{};
    for (const size_t one : node.dependencies) after.push_back(operations[one]);
    Work work{.name = "disabled node"};
    if (node.is_enabled) work = make_work(runtime, *stream.device, node.parameters);
    work.name += " of a graph";
    if (const auto* event = std::get_if<EventParameters>(&node.parameters);
        event != nullptr && event->is_wait)
      after.push_back(event->record->operation);
    const uint32_t chain = node.branch == 0 ? stream.chain : chains[static_cast<size_t>(node.branch) - 1];
    operations[i] = runtime.scheduler.add(lock, chain, runtime.guard(*stream.device, std::move(work)), after);
    if (const auto* event = std::get_if<EventParameters>(&node.parameters);
        event != nullptr && !event->is_wait)
      event->record->operation = operations[i];
    if (node.is_last) last.push_back(operations[i]);
  }
  if (nodes.empty()) last = before;
  last_launch = runtime.scheduler.add(lock, stream.chain, {.name = "end of a graph"}, last);
}

}  // namespace tessera::cuda_sim
