// What a backward computes: its seeds, the leaves and values that are wanted, and its place among the
// backwards of this thread. engine.cpp runs it.

#include <utility>

#include "autograd/debug/backward_reports.h"
#include "autograd/engine.h"
#include "autograd/record.h"

namespace tessera {
namespace {

thread_local const Engine* running_engine = nullptr;

}  // namespace

Engine::Running::Running(const Engine* engine) : outer_(std::exchange(running_engine, engine)) {}

Engine::Running::~Running() {
  running_engine = outer_;
}

const Engine* Engine::running() {
  return running_engine;
}

void Engine::visit_needed(FunctionRef<void(const Node&)> visit) const {
  for (const State& state : graph_.states())
    if (state.needed) visit(*state.node);
}

Engine::Engine(BackwardOptions options) : options_(options) {
  options_.retain_graph |= options_.create_graph;
}

Engine::~Engine() {
  if (!options_.retain_graph) return;
  for (State& state : graph_.states()) state.node->drop_produced();  // also of nodes that did not run
}

void Engine::accumulate_into(std::span<const Variable> leaves) {
  all_leaves_ = leaves.empty();
  for (const Variable& leaf : leaves) graph_[graph_.index_of(gradient_edge(leaf).node)].wanted_leaf = true;
}

void Engine::capture(const Variable& x, size_t index) {
  const Edge edge = gradient_edge(x);
  State& state = graph_[graph_.index_of(edge.node)];
  if (!state.captures) state.captures = std::make_unique<std::vector<Capture>>();
  state.captures->push_back({edge.output, index});
}

void Engine::seed(const Edge& edge, Variable gradient) {
  const uint32_t index = graph_.index_of(edge.node);
  sum_into(graph_[index].incoming[edge.output], std::move(gradient));
  seeds_.push_back(index);
}

void Engine::seed(PendingNode pending) {
  const uint32_t index = graph_.index_of(pending.node);
  State& state = graph_[index];
  state.incoming = std::move(pending.incoming);
  state.delivered = std::make_unique<std::vector<bool>>(std::move(pending.delivered));
  seeds_.push_back(index);
}

void Engine::report_start() {
  if (!backward_is_observed()) return;
  std::vector<Variable> reached;
  for (const State& state : graph_.states())
    if (LeafNode* leaf = state.node->as_leaf();
        leaf && leaf->leaf && state.wanted_leaf && state.dependencies > 0)
      reached.emplace_back(intrusive_ptr<VariableImpl>(leaf->leaf));
  notify_backward_start(reached);
}

}  // namespace tessera
