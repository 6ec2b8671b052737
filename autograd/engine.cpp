// The backward engine: order the nodes that lead to a wanted leaf by dependency count; pop one; sum the
// gradients that arrived; run its rule; pass its gradients on; free its saved values. No device code, no
// sharding, no threads of its own.

#include "autograd/engine.h"

#include <algorithm>
#include <optional>

#include "autograd/autocast/autocast.h"
#include "autograd/debug/anomaly.h"
#include "autograd/debug/backward_reports.h"
#include "autograd/grad_mode.h"
#include "autograd/graph/leaf_accumulation.h"
#include "autograd/graph/retained_gradients.h"
#include "autograd/graph/rule_checks.h"
#include "autograd/hooks/node_hooks.h"

namespace tessera {
namespace {

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

void Engine::run(std::vector<Variable>* results) {
  results_ = results;
  for (uint32_t index : seeds_) graph_.discover(index, all_leaves_);
  for (uint32_t index : seeds_) reaches_wanted_ |= graph_[index].needed;
  if (!reaches_wanted_) return;

  const SpanScope span(SpanKind::phase, "backward");
  BackwardInProgress in_progress;
  const Running running(this);
  report_start();
  const auto earlier = [this](uint32_t a, uint32_t b) {
    return graph_[a].node->sequence() < graph_[b].node->sequence();
  };
  const auto make_ready = [&](uint32_t index) {
    ready_.push_back(index);
    std::push_heap(ready_.begin(), ready_.end(), earlier);
  };
  std::sort(seeds_.begin(), seeds_.end());
  seeds_.erase(std::unique(seeds_.begin(), seeds_.end()), seeds_.end());
  for (uint32_t index : seeds_)
    if (graph_[index].needed && graph_[index].dependencies == 0) make_ready(index);

  GradMode mode(options_.create_graph);
  const AutocastScope no_autocast(f32);  // rules compute in the dtypes of the forward
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
  State& state = graph_[index];
  apply_hooks(state);
  if (state.node->as_leaf())
    finish_leaf(state);
  else
    run_rule(state);
  state.incoming.clear();
}

/// Calls hooks with the summed gradient of each output, which they may replace; then retains and captures it.
void Engine::apply_hooks(State& state) {
  if (state.delivered) return;  // the earlier backward did so
  Node& node = *state.node;
  if (node.has_hooks()) call_gradient_hooks(node, state.incoming);
  if (node.retained_variables) retain_gradients(node, state.incoming, options_.create_graph);
  if (state.captures)
    for (const Capture& capture : *state.captures)
      (*results_)[capture.index] = state.incoming[capture.output];
}

/// Finds the inputs that need a gradient, and the leaves among them: the rule may write their gradients.
Engine::WantedInputs Engine::find_wanted_inputs(const State& state, InlineVector<Wanted::Entry, 3>& entries) {
  const Node& node = *state.node;
  const bool rule_may_write = !options_.create_graph && !(node.has_hooks() && has_hooks_after_rule(node));
  WantedInputs found;
  for (size_t i = 0; i < node.edges.size(); ++i) {
    if (!graph_.follows_edge(state, i)) continue;
    const State& target = graph_[graph_.known_index(*node.edges[i].node)];
    entries[i].wanted = target.needed;
    entries[i].rule_may_write_leaf = target.needed && rule_may_write && accumulates_directly(target);
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
    const bool hooked = node.has_hooks();
    InlineVector<Variable, 1> replaced;
    if (hooked) replaced = after_hooks_before_rule(node, state.incoming);
    const InlineVector<Variable, 1>& incoming = hooked ? replaced : state.incoming;
    const Wanted wanted(node, entries, options_.retain_graph || rule_runs_again);
    gradients = run_in_module_scope(node, Incoming(incoming), wanted);
    if (hooked) call_hooks_after_rule(node, gradients, incoming);
    check_gradients(node, gradients);
    for (size_t i = 0; i < inputs; ++i)
      if (entries[i].written_to_leaf) accumulate(*node.edges[i].node->as_leaf(), std::move(gradients[i]));
  }
  if (rule_runs_again) {
    PendingNode rest{state.node, state.incoming, std::vector<bool>(inputs)};
    for (size_t i = 0; i < inputs; ++i)
      rest.delivered[i] = !graph_.follows_edge(state, i) || entries[i].wanted;
    pending_->push_back(std::move(rest));
  } else if (!options_.retain_graph) {
    node.release_saved();
  } else {
    node.drop_produced();
  }
  for (size_t i = 0; i < inputs; ++i)
    if (entries[i].wanted)
      deliver(node.edges[i], std::move(gradients[i]), entries[i].added_to_leaf || entries[i].written_to_leaf);
}

/// Passes a gradient, which may be undefined, along an edge; the last one makes its target ready.
void Engine::deliver(const Edge& edge, Variable gradient, bool written) {
  const uint32_t index = graph_.known_index(*edge.node);
  State& target = graph_[index];
  if (!written && gradient.defined()) {
    if (accumulates_directly(target))
      accumulate(*target.node->as_leaf(), std::move(gradient));
    else
      sum_into(target.incoming[edge.output], std::move(gradient));
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
  for (const auto& hook : std::vector<LeafNode::PostAccumulate>(node.post_accumulate_hooks))
    hook.call(Variable(leaf));
}

void Engine::sum_into(Variable& total, Variable gradient) {
  total = total.defined() ? sum_gradients(std::move(total), gradient, options_.create_graph)
                          : std::move(gradient);
}

}  // namespace tessera
