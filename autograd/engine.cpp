// The backward engine. One sentence: order the nodes that lead to a wanted leaf by dependency count; pop one;
// sum what arrived; run its rule; pass on; free what it saved. No device code, no sharding, no threads of its
// own.

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
std::atomic<uint64_t> next_run{1};

/// Errors and profiles name the module whose forward recorded the rule.
Gradients run_named(Node& node, const Incoming& incoming, const Wanted& wanted) {
  if (!node.origin && !profiling()) [[likely]]
    return node.run(incoming, wanted);
  std::optional<NamedScope> module;
  if (node.origin) module.emplace(*node.origin);
  const SpanScope span(SpanKind::rule, node.name());
  return node.run(incoming, wanted);
}

/// Whether no other input of the node leads where this one does: a rule that writes one gradient where it
/// belongs must not write over another.
bool is_only_edge_there(const Node& node, size_t input) {
  for (size_t i = 0; i < node.edges.size(); ++i)
    if (i != input && node.edges[i].node == node.edges[input].node) return false;
  return true;
}

}  // namespace

Engine::Engine(BackwardOptions options) : options_(options), id_(next_run.fetch_add(1)) {
  options_.retain_graph |= options_.create_graph;
}

Engine::~Engine() {
  for (State& state : states_) {
    if (options_.retain_graph) state.node->drop_unpacked();  // also of nodes that did not run
    if (state.noted) state.node->run_id.store(0, std::memory_order_release);
  }
}

/// The node's place in `states_`, made on first sight. The node itself notes it, so that no hash table is
/// needed, unless another backward has its note there: one around this, or one of another thread.
uint32_t Engine::place_of(const intrusive_ptr<Node>& node) {
  uint64_t noted_by = node->run_id.load(std::memory_order_relaxed);
  if (noted_by == id_) return node->place;
  if (!places_.empty())
    if (const auto found = places_.find(node.get()); found != places_.end()) return found->second;
  const auto place = static_cast<uint32_t>(states_.size());
  State state;
  state.node = node;
  state.incoming.resize(std::max<size_t>(node->outputs.size(), 1));
  state.noted =
      noted_by == 0 && node->run_id.compare_exchange_strong(noted_by, id_, std::memory_order_acquire);
  if (state.noted)
    node->place = place;
  else
    places_.emplace(node.get(), place);
  states_.push_back(std::move(state));
  return place;
}

void Engine::accumulate_into(std::span<const Variable> leaves) {
  all_leaves_ = leaves.empty();
  for (const Variable& leaf : leaves) states_[place_of(gradient_edge(leaf).node)].wanted_leaf = true;
}

void Engine::capture(const Variable& x, size_t index) {
  const Edge edge = gradient_edge(x);
  State& state = states_[place_of(edge.node)];
  if (!state.captures) state.captures = std::make_unique<std::vector<Capture>>();
  state.captures->push_back({edge.slot, index});
}

void Engine::seed(const Edge& edge, Variable gradient) {
  const uint32_t place = place_of(edge.node);
  sum_into(states_[place].incoming[edge.slot], std::move(gradient));
  seeds_.push_back(place);
}

void Engine::seed(PendingNode pending) {
  const uint32_t place = place_of(pending.node);
  State& state = states_[place];
  state.incoming = std::move(pending.incoming);
  state.skip = std::make_unique<std::vector<bool>>(std::move(pending.done));
  seeds_.push_back(place);
}

/// Visits everything below `root` with a stack of our own, children before parents, so that each node learns
/// whether it leads to something wanted, and how many wanted edges will deliver to it.
void Engine::discover(uint32_t root) {
  std::vector<std::pair<uint32_t, size_t>> stack{{root, 0}};  // a node and its next input to visit
  states_[root].visited = true;
  while (!stack.empty()) {
    auto& [place, input] = stack.back();
    const intrusive_ptr<Node> node = states_[place].node;
    if (input == node->edges.size()) {
      finish_discovery(place);
      stack.pop_back();
      continue;
    }
    const size_t i = input++;
    if (!follows(states_[place], i)) continue;
    const intrusive_ptr<Node>& child = node->edges[i].node;
    const uint32_t child_place = place_of(child);
    if (std::exchange(states_[child_place].visited, true)) continue;
    stack.emplace_back(child_place, 0);
  }
}

void Engine::finish_discovery(uint32_t place) {
  State& state = states_[place];
  if (LeafNode* leaf = state.node->as_leaf()) state.wanted_leaf |= all_leaves_ && leaf->leaf;
  state.needed = state.wanted_leaf || state.captures;
  for (size_t i = 0; i < state.node->edges.size(); ++i) {
    if (!follows(state, i)) continue;
    State& child = states_[known_place(*state.node->edges[i].node)];
    if (!child.needed) continue;
    state.needed = true;
    ++child.dependencies;
  }
}

void Engine::run(std::vector<Variable>* results) {
  results_ = results;
  for (uint32_t place : seeds_)
    if (!states_[place].visited) discover(place);
  for (uint32_t place : seeds_) reaches_ |= states_[place].needed;
  if (!reaches_) return;

  const SpanScope span(SpanKind::phase, "backward");
  BackwardInProgress in_progress;
  report_start();
  const auto earlier = [this](uint32_t a, uint32_t b) {
    return states_[a].node->sequence() < states_[b].node->sequence();
  };
  const auto make_ready = [&](uint32_t place) {
    ready_.push_back(place);
    std::push_heap(ready_.begin(), ready_.end(), earlier);
  };
  std::sort(seeds_.begin(), seeds_.end());
  seeds_.erase(std::unique(seeds_.begin(), seeds_.end()), seeds_.end());
  for (uint32_t place : seeds_)
    if (states_[place].needed && states_[place].dependencies == 0) make_ready(place);

  GradMode mode(options_.create_graph);
  while (!ready_.empty()) {
    std::pop_heap(ready_.begin(), ready_.end(), earlier);
    const uint32_t place = ready_.back();
    ready_.pop_back();
    process(place);
    for (uint32_t next : released_) make_ready(next);
    released_.clear();
  }
  in_progress.finish();
}

void Engine::process(uint32_t place) {
  State& state = states_[place];
  apply_hooks(state);
  if (state.node->as_leaf())
    finish_leaf(state);
  else
    run_rule(state);
  state.incoming.clear();
}

/// Hooks see, and may replace, the summed gradient of each output; then it is kept for whoever asked.
void Engine::apply_hooks(State& state) {
  Node& node = *state.node;
  if (node.has_hooks()) call_hooks(state);
  if (node.retained_variables)
    for (const Node::Retained& retained : *node.retained_variables)
      retain(retained, state.incoming[retained.slot]);
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

/// Adds what arrived to the gradient that a computed Variable retains, which others may hold.
void Engine::retain(const Node::Retained& retained, const Variable& gradient) {
  if (!gradient.defined()) return;
  intrusive_ptr<VariableImpl>& kept = retained.variable->gradient;
  if (!kept)
    kept = gradient.impl();
  else if (options_.create_graph)
    kept = add(Variable(kept), gradient).impl();
  else
    kept = Variable(ops::add(kept->value, gradient.value())).impl();
}

/// Offers the rule the memory of a leaf's gradient, unless another thread adds to it at this moment.
void Engine::offer_leaf(LeafNode& leaf, bool is_only_edge, Wanted::Entry& entry, HeldLeaves& held) {
  std::unique_lock lock(leaf.accumulation, std::try_to_lock);
  if (!lock) return;
  entry.leaf = gradient_to_add_to(*leaf.leaf);
  entry.add_to_leaf = entry.leaf != nullptr;
  if (!entry.leaf && is_only_edge) entry.leaf = empty_gradient_buffer(*leaf.leaf);
  if (entry.leaf) held.push_back(std::move(lock));
}

/// Which inputs the rule is to give gradients for, and where it may write them.
Engine::Reach Engine::reach_of(const State& state, InlineVector<Wanted::Entry, 3>& entries,
                               HeldLeaves& held) {
  const Node& node = *state.node;
  Reach reach;
  for (size_t i = 0; i < node.edges.size(); ++i) {
    if (!follows(state, i)) continue;
    const State& target = states_[known_place(*node.edges[i].node)];
    entries[i].wanted = target.needed;
    (target.needed ? reach.any : reach.leaves_some) = true;
    LeafNode* const leaf = target.node->as_leaf();
    if (!target.needed || !leaf || !leaf->leaf) continue;
    entries[i].leaf_dtype = leaf->leaf->grad_dtype;
    if (direct(target) && !options_.create_graph)
      offer_leaf(*leaf, is_only_edge_there(node, i), entries[i], held);
  }
  return reach;
}

void Engine::run_rule(State& state) {
  Node& node = *state.node;
  const size_t inputs = node.edges.size();
  InlineVector<Wanted::Entry, 3> entries(inputs);
  HeldLeaves held;
  const Reach reach = reach_of(state, entries, held);
  if (!reach.any) return;

  const bool rule_runs_again = pending_ && reach.leaves_some;
  const bool anything_arrived = std::any_of(state.incoming.begin(), state.incoming.end(),
                                            [](const Variable& gradient) { return gradient.defined(); });
  Gradients gradients(inputs);
  if (anything_arrived) {
    require_not_released(node);
    gradients =
        run_named(node, Incoming(state.incoming), Wanted(entries, options_.retain_graph || rule_runs_again));
    check_gradients(node, gradients);
    for (size_t i = 0; i < inputs; ++i)  // a first gradient; one that was added to is there already
      if (entries[i].written_to_leaf && !entries[i].add_to_leaf)
        add_to(*node.edges[i].node->as_leaf(), std::move(gradients[i]));
  }
  held.clear();
  if (rule_runs_again) {
    PendingNode rest{state.node, state.incoming, std::vector<bool>(inputs)};
    for (size_t i = 0; i < inputs; ++i) rest.done[i] = !follows(state, i) || entries[i].wanted;
    pending_->push_back(std::move(rest));
  } else if (!options_.retain_graph) {
    node.release_saved();
  } else {
    node.drop_unpacked();
  }
  for (size_t i = 0; i < inputs; ++i)
    if (entries[i].wanted) deliver(node.edges[i], std::move(gradients[i]), entries[i].written_to_leaf);
}

/// Passes a gradient (or the news that there is none) along an edge; the last one makes its target ready.
void Engine::deliver(const Edge& edge, Variable gradient, bool written) {
  const uint32_t place = known_place(*edge.node);
  State& target = states_[place];
  if (!written && gradient.defined()) {
    if (direct(target))
      add_to(*target.node->as_leaf(), std::move(gradient));
    else
      sum_into(target.incoming[edge.slot], std::move(gradient));
  }
  if (--target.dependencies > 0) return;
  if (target.node->as_leaf())
    process(place);  // at once: whoever shards or reduces gradients wants them early
  else
    released_.push_back(place);
}

void Engine::add_to(LeafNode& leaf, Variable gradient) {
  const std::lock_guard alone(leaf.accumulation);
  add_to_leaf(*leaf.leaf, std::move(gradient), options_.create_graph);
}

/// Whether gradients may be added to the leaf as they arrive, without summing them first.
bool Engine::direct(const State& state) const {
  LeafNode* leaf = state.node->as_leaf();
  return leaf && leaf->leaf && state.wanted_leaf && !state.captures && !leaf->has_hooks();
}

void Engine::finish_leaf(State& state) {
  LeafNode& node = *state.node->as_leaf();
  if (!state.wanted_leaf || !node.leaf) return;
  const intrusive_ptr<VariableImpl> leaf(node.leaf);
  if (state.incoming[0].defined()) add_to(node, std::move(state.incoming[0]));
  for (const auto& hook : std::vector<LeafNode::Accumulated>(node.accumulated_hooks))
    hook.call(Variable(leaf));
}

void Engine::sum_into(Variable& held, Variable gradient) {
  held =
      held.defined() ? sum_gradients(std::move(held), gradient, options_.create_graph) : std::move(gradient);
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
