// The backward engine: order the nodes that lead to a wanted leaf by dependency count; pop one; sum what
// arrived; run its rule; pass on; free what it saved. No device code, no sharding, no threads of its own.

#include "autograd/engine.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "autograd/anomaly.h"
#include "autograd/backward_reports.h"
#include "autograd/functions/arithmetic.h"
#include "autograd/grad_mode.h"
#include "autograd/leaf_accumulation.h"
#include "autograd/record.h"
#include "autograd/rule_checks.h"
#include "tensor/ops/binary.h"

namespace tessera {
namespace {
std::atomic<uint64_t> next_engine_id{1};

/// Runs the rule in the scope of the module whose forward recorded it, for errors and profiles.
Gradients run_in_module_scope(Node& node, const Incoming& incoming, const Wanted& wanted) {
  if (!node.module_name && !profiling()) [[likely]]
    return node.run(incoming, wanted);
  std::optional<NamedScope> module;
  if (node.module_name) module.emplace(*node.module_name);
  const SpanScope span(SpanKind::rule, node.name());
  return node.run(incoming, wanted);
}

}  // namespace

Engine::Engine(BackwardOptions options) : options_(options), id_(next_engine_id.fetch_add(1)) {
  options_.retain_graph |= options_.create_graph;
}

Engine::~Engine() {
  for (State& state : states_) {
    if (options_.retain_graph) state.node->drop_unpacked();  // also of nodes that did not run
    if (state.index_is_in_node) state.node->engine_id.store(0, std::memory_order_release);
  }
}

/// The index of the node's state, which is created at first use. The node itself stores the index, without a
/// hash table, unless it stores that of another engine: an outer one, or one of another thread.
uint32_t Engine::index_of(const intrusive_ptr<Node>& node) {
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

void Engine::accumulate_into(std::span<const Variable> leaves) {
  all_leaves_ = leaves.empty();
  for (const Variable& leaf : leaves) states_[index_of(gradient_edge(leaf).node)].wanted_leaf = true;
}

void Engine::capture(const Variable& x, size_t index) {
  const Edge edge = gradient_edge(x);
  State& state = states_[index_of(edge.node)];
  if (!state.captures) state.captures = std::make_unique<std::vector<Capture>>();
  state.captures->push_back({edge.slot, index});
}

void Engine::seed(const Edge& edge, Variable gradient) {
  const uint32_t index = index_of(edge.node);
  sum_into(states_[index].incoming[edge.slot], std::move(gradient));
  seeds_.push_back(index);
}

void Engine::seed(PendingNode pending) {
  const uint32_t index = index_of(pending.node);
  State& state = states_[index];
  state.incoming = std::move(pending.incoming);
  state.delivered = std::make_unique<std::vector<bool>>(std::move(pending.delivered));
  seeds_.push_back(index);
}

/// Visits all nodes below `root` with an explicit stack, children before parents. Finds for each node whether
/// it leads to something wanted, and how many wanted edges deliver to it.
void Engine::discover(uint32_t root) {
  std::vector<std::pair<uint32_t, size_t>> stack{{root, 0}};  // a node and its next input to visit
  states_[root].visited = true;
  while (!stack.empty()) {
    auto& [index, input] = stack.back();
    const intrusive_ptr<Node> node = states_[index].node;
    if (input == node->edges.size()) {
      finish_discovery(index);
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

void Engine::finish_discovery(uint32_t index) {
  State& state = states_[index];
  if (LeafNode* leaf = state.node->as_leaf()) state.wanted_leaf |= all_leaves_ && leaf->leaf;
  state.needed = state.wanted_leaf || state.captures;
  for (size_t i = 0; i < state.node->edges.size(); ++i) {
    if (!follows_edge(state, i)) continue;
    State& child = states_[known_index(*state.node->edges[i].node)];
    if (!child.needed) continue;
    state.needed = true;
    ++child.dependencies;
  }
}

void Engine::run(std::vector<Variable>* results) {
  results_ = results;
  for (uint32_t index : seeds_)
    if (!states_[index].visited) discover(index);
  for (uint32_t index : seeds_) reaches_wanted_ |= states_[index].needed;
  if (!reaches_wanted_) return;

  const SpanScope span(SpanKind::phase, "backward");
  BackwardInProgress in_progress;
  report_start();
  const auto earlier = [this](uint32_t a, uint32_t b) {
    return states_[a].node->sequence() < states_[b].node->sequence();
  };
  const auto make_ready = [&](uint32_t index) {
    ready_.push_back(index);
    std::push_heap(ready_.begin(), ready_.end(), earlier);
  };
  std::sort(seeds_.begin(), seeds_.end());
  seeds_.erase(std::unique(seeds_.begin(), seeds_.end()), seeds_.end());
  for (uint32_t index : seeds_)
    if (states_[index].needed && states_[index].dependencies == 0) make_ready(index);

  GradMode mode(options_.create_graph);
  while (!ready_.empty()) {
    std::pop_heap(ready_.begin(), ready_.end(), earlier);
    const uint32_t index = ready_.back();
    ready_.pop_back();
    process(index);
    for (uint32_t next : newly_ready_) make_ready(next);
    newly_ready_.clear();
  }
  in_progress.finish();
}

void Engine::process(uint32_t index) {
  State& state = states_[index];
  apply_hooks(state);
  if (state.node->as_leaf())
    finish_leaf(state);
  else
    run_rule(state);
  state.incoming.clear();
}

/// Calls hooks with the summed gradient of each output, which they may replace; then retains and captures it.
void Engine::apply_hooks(State& state) {
  Node& node = *state.node;
  if (node.has_hooks()) call_hooks(state);
  if (node.retained_variables)
    for (const Node::Retained& retained : *node.retained_variables)
      accumulate_retained(retained, state.incoming[retained.slot]);
  if (state.captures)
    for (const Capture& capture : *state.captures) (*results_)[capture.index] = state.incoming[capture.slot];
}

void Engine::call_hooks(State& state) {
  for (const std::shared_ptr<Node::Hook>& hook : Node::Hooks(*state.node->hooks)) {
    Variable& gradient = state.incoming[hook->slot];
    if (!gradient.defined()) continue;
    Variable replaced = hook->call(gradient);
    if (!replaced.defined()) continue;
    check_replaced(*state.node, *hook, gradient, replaced);
    gradient = std::move(replaced);
  }
}

/// Adds `gradient` to the one that a computed Variable retains: out of place, since it may have other
/// holders.
void Engine::accumulate_retained(const Node::Retained& retained, const Variable& gradient) {
  if (!gradient.defined()) return;
  intrusive_ptr<VariableImpl>& kept = retained.variable->gradient;
  if (!kept)
    kept = gradient.impl();
  else if (options_.create_graph)
    kept = add(Variable(kept), gradient).impl();
  else
    kept = Variable(ops::add(kept->value, gradient.value())).impl();
}

/// Finds the inputs that need a gradient, and the leaves among them whose gradient the rule may write.
Engine::WantedInputs Engine::find_wanted_inputs(const State& state, InlineVector<Wanted::Entry, 3>& entries) {
  const Node& node = *state.node;
  WantedInputs found;
  for (size_t i = 0; i < node.edges.size(); ++i) {
    if (!follows_edge(state, i)) continue;
    const State& target = states_[known_index(*node.edges[i].node)];
    entries[i].wanted = target.needed;
    entries[i].rule_may_write_leaf = target.needed && !options_.create_graph && accumulates_directly(target);
    (target.needed ? found.some_wanted : found.some_unwanted) = true;
  }
  return found;
}

void Engine::run_rule(State& state) {
  Node& node = *state.node;
  const size_t inputs = node.edges.size();
  InlineVector<Wanted::Entry, 3> entries(inputs);
  const WantedInputs found = find_wanted_inputs(state, entries);
  if (!found.some_wanted) return;

  const bool rule_runs_again = pending_ && found.some_unwanted;
  const bool anything_arrived = std::any_of(state.incoming.begin(), state.incoming.end(),
                                            [](const Variable& gradient) { return gradient.defined(); });
  Gradients gradients(inputs);
  if (anything_arrived) {
    require_not_released(node);
    const Wanted wanted(node, entries, options_.retain_graph || rule_runs_again);
    gradients = run_in_module_scope(node, Incoming(state.incoming), wanted);
    check_gradients(node, gradients);
    for (size_t i = 0; i < inputs; ++i)
      if (entries[i].written_to_leaf) accumulate(*node.edges[i].node->as_leaf(), std::move(gradients[i]));
  }
  if (rule_runs_again) {
    PendingNode rest{state.node, state.incoming, std::vector<bool>(inputs)};
    for (size_t i = 0; i < inputs; ++i) rest.delivered[i] = !follows_edge(state, i) || entries[i].wanted;
    pending_->push_back(std::move(rest));
  } else if (!options_.retain_graph) {
    node.release_saved();
  } else {
    node.drop_unpacked();
  }
  for (size_t i = 0; i < inputs; ++i)
    if (entries[i].wanted)
      deliver(node.edges[i], std::move(gradients[i]), entries[i].added_to_leaf || entries[i].written_to_leaf);
}

/// Passes a gradient, which may be undefined, along an edge; the last one makes its target ready.
void Engine::deliver(const Edge& edge, Variable gradient, bool written) {
  const uint32_t index = known_index(*edge.node);
  State& target = states_[index];
  if (!written && gradient.defined()) {
    if (accumulates_directly(target))
      accumulate(*target.node->as_leaf(), std::move(gradient));
    else
      sum_into(target.incoming[edge.slot], std::move(gradient));
  }
  if (--target.dependencies > 0) return;
  if (target.node->as_leaf())
    process(index);  // at once: sharding reduces gradients early
  else
    newly_ready_.push_back(index);
}

void Engine::accumulate(LeafNode& leaf, Variable gradient) {
  const std::lock_guard lock(leaf.accumulation_mutex);
  add_to_leaf(*leaf.leaf, std::move(gradient), options_.create_graph);
}

/// Whether gradients may be added to the leaf as they arrive, without a sum first.
bool Engine::accumulates_directly(const State& state) const {
  LeafNode* leaf = state.node->as_leaf();
  return leaf && leaf->leaf && state.wanted_leaf && !state.captures && !leaf->has_hooks();
}

void Engine::finish_leaf(State& state) {
  LeafNode& node = *state.node->as_leaf();
  if (!state.wanted_leaf || !node.leaf) return;
  const intrusive_ptr<VariableImpl> leaf(node.leaf);
  if (state.incoming[0].defined()) accumulate(node, std::move(state.incoming[0]));
  for (const auto& hook : std::vector<LeafNode::Accumulated>(node.accumulated_hooks))
    hook.call(Variable(leaf));
}

void Engine::sum_into(Variable& total, Variable gradient) {
  total = total.defined() ? sum_gradients(std::move(total), gradient, options_.create_graph)
                          : std::move(gradient);
}

void Engine::report_start() {
  if (!backward_is_observed()) return;
  std::vector<Variable> reached;
  for (const State& state : states_)
    if (LeafNode* leaf = state.node->as_leaf();
        leaf && leaf->leaf && state.wanted_leaf && state.dependencies > 0)
      reached.emplace_back(intrusive_ptr<VariableImpl>(leaf->leaf));
  notify_backward_start(reached);
}

}  // namespace tessera
