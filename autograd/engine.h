#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "autograd/node.h"

namespace tessera {

/// A node that a backward ran for some of its inputs only, with what had arrived there: the other inputs are
/// left for a second backward.
struct PendingNode {
  intrusive_ptr<Node> node;
  InlineVector<Variable, 1> incoming;
  std::vector<bool> done;  // per input: already delivered
};

/// One backward: order the nodes that lead to a wanted leaf by dependency count; pop one; sum what arrived;
/// run its rule; pass on; free what it saved. Single-threaded; every thread may run its own at the same time,
/// also towards leaves that they share. See engine.cpp.
class Engine {
 public:
  explicit Engine(BackwardOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Gradients are added to the leaves that `wants` names, or to every leaf when it is empty.
  void accumulate_into(std::span<const Variable> leaves);
  /// The gradient of `x` is kept as result `index` of `results` instead.
  void capture(const Variable& x, size_t index);
  /// Keeps, for every node that ran, the inputs that did not lead to anything wanted.
  void keep_pending(std::vector<PendingNode>* pending) { pending_ = pending; }

  /// A gradient that enters the graph at an edge.
  void seed(const Edge& edge, Variable gradient);
  /// Goes on where an earlier backward left `pending`.
  void seed(PendingNode pending);

  /// Runs the nodes, each after all those recorded later. `results` has one entry per captured index
  /// afterwards.
  void run(std::vector<Variable>* results = nullptr);
  /// Whether any seed leads to something wanted.
  bool reaches_anything() const { return reaches_; }

 private:
  /// Leaves whose gradients the rule that runs may write in place: no other thread adds to them meanwhile.
  using HeldLeaves = InlineVector<std::unique_lock<std::recursive_mutex>, 2>;
  struct Capture {
    int slot;
    size_t index;
  };
  struct State {
    intrusive_ptr<Node> node;
    InlineVector<Variable, 1> incoming;
    std::unique_ptr<std::vector<Capture>> captures;
    std::unique_ptr<std::vector<bool>> skip;  // inputs that an earlier backward has delivered
    int dependencies = 0;                     // wanted edges that have not delivered here yet
    bool needed = false;                      // is, or leads to, something wanted
    bool wanted_leaf = false;
    bool visited = false;
    bool noted = false;  // the node itself holds its place
  };

  uint32_t place_of(const intrusive_ptr<Node>& node);
  uint32_t known_place(const Node& node) const {
    return node.run_id.load(std::memory_order_relaxed) == id_ ? node.place : places_.at(&node);
  }
  void discover(uint32_t root);
  void finish_discovery(uint32_t place);
  bool follows(const State& state, size_t input) const {
    return state.node->edges[input].node && !(state.skip && (*state.skip)[input]);
  }
  void process(uint32_t place);
  void apply_hooks(State& state);
  void call_hooks(State& state);
  void retain(const Node::Retained& retained, const Variable& gradient);
  void run_rule(State& state);
  struct Reach {
    bool any = false;          // some input leads to something wanted
    bool leaves_some = false;  // some input does not
  };
  Reach reach_of(const State& state, InlineVector<Wanted::Entry, 3>& entries, HeldLeaves& held);
  void offer_leaf(LeafNode& leaf, bool is_only_edge, Wanted::Entry& entry, HeldLeaves& held);
  void add_to(LeafNode& leaf, Variable gradient);
  void deliver(const Edge& edge, Variable gradient, bool written);
  void sum_into(Variable& held, Variable gradient);
  void finish_leaf(State& state);
  bool direct(const State& state) const;
  void report_start();

  BackwardOptions options_;
  uint64_t id_;
  bool all_leaves_ = false;
  bool reaches_ = false;
  std::vector<State> states_;
  std::unordered_map<const Node*, uint32_t> places_;  // of nodes that hold another backward's note
  std::vector<uint32_t> seeds_;
  std::vector<uint32_t> ready_;     // a heap by sequence: later operations first
  std::vector<uint32_t> released_;  // became ready while the last node ran
  std::vector<PendingNode>* pending_ = nullptr;
  std::vector<Variable>* results_ = nullptr;
};

}  // namespace tessera
