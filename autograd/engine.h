#pragma once  // internal

#include <span>
#include <vector>

#include "autograd/graph/backward_graph.h"
#include "tensor/function_ref.h"

namespace tessera {

/// A node whose rule ran for some of its inputs only, with its grad_outputs: the other inputs are left for a
/// second backward.
struct PendingNode {
  intrusive_ptr<Node> node;            ///< its rule runs again in the second backward
  InlineVector<Variable, 1> incoming;  ///< its grad_outputs, one per output
  std::vector<bool> delivered;         ///< per input: no gradient is left to compute
};

/// One backward: order the nodes that lead to a wanted leaf by dependency count; pop one; sum the gradients
/// that arrived; run its rule; pass its gradients on; free its saved values. Single-threaded; threads may
/// each run one at the same time, also to leaves that they share. What to compute is in engine_setup.cpp, how
/// in engine.cpp.
class Engine {
 public:
  /// `create_graph` implies `retain_graph`. The methods below say what to compute; `run` is called once.
  explicit Engine(BackwardOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Adds gradients to `leaves`, or to every leaf when that is empty.
  void accumulate_into(std::span<const Variable> leaves);
  /// Makes the gradient of `x` entry `index` of the results instead.
  void capture(const Variable& x, size_t index);
  /// Adds to `pending` every node that ran and has inputs that lead to nothing wanted.
  void keep_pending(std::vector<PendingNode>* pending) { pending_ = pending; }

  /// Adds a gradient with which the backward starts at `edge`.
  void seed(const Edge& edge, Variable gradient);
  /// Continues at a node that an earlier backward left pending.
  void seed(PendingNode pending);

  /// Runs the nodes, those recorded later first. Writes the captured gradients to `results`, which has an
  /// entry per captured index.
  void run(std::vector<Variable>* results = nullptr);
  /// Whether any seed leads to something wanted.
  bool reaches_wanted() const { return reaches_wanted_; }

  /// The engine of this thread's innermost backward; null outside of one.
  static const Engine* running();
  /// Calls `visit` with each node that this backward gives gradients to, in no order.
  void visit_needed(FunctionRef<void(const Node&)> visit) const;

 private:
  using State = BackwardGraph::State;
  using Capture = BackwardGraph::Capture;
  /// Makes an engine that of the thread's innermost backward while it lives.
  class Running {
   public:
    explicit Running(const Engine* engine);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    const Engine* outer_;
  };

  void process(uint32_t index);
  void apply_hooks(State& state);
  void run_rule(State& state);
  struct WantedInputs {
    bool some_wanted = false;    // an input leads to something wanted
    bool some_unwanted = false;  // an input does not
  };
  WantedInputs find_wanted_inputs(const State& state, InlineVector<Wanted::Entry, 3>& entries);
  void accumulate(LeafNode& leaf, Variable gradient);
  void deliver(const Edge& edge, Variable gradient, bool written);
  void sum_into(Variable& total, Variable gradient);
  void finish_leaf(State& state);
  bool accumulates_directly(const State& state) const;
  void report_start();

  BackwardOptions options_;
  BackwardGraph graph_;
  bool all_leaves_ = false;
  bool reaches_wanted_ = false;
  std::vector<uint32_t> seeds_;
  std::vector<uint32_t> ready_;        // a heap by sequence: later operations first
  std::vector<uint32_t> newly_ready_;  // became ready while the last node ran
  std::vector<PendingNode>* pending_ = nullptr;
  std::vector<Variable>* results_ = nullptr;
};

}  // namespace tessera
