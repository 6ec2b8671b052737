#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "autograd/gradients.h"
#include "autograd/saved.h"

namespace tessera {

/// What an output looked like, to hold gradients against.
struct OutputInfo {
  Shape shape;
  DType dtype = f32;
};

/// One recorded operation: where its inputs came from, what it saved, and its backward rule.
/// The last release of a node queues it on a list of this thread that the outermost release drains, so that
/// freeing a graph of any depth never recurses.
class Node : public RefCounted<Node> {
 public:
  explicit Node(const char* name);
  virtual ~Node() = default;

  /// Runs the rule on what arrived.
  virtual Gradients run(const Incoming& incoming, const Wanted& wanted) = 0;
  /// The leaf behind this node, for LeafNode only.
  virtual LeafNode* as_leaf() { return nullptr; }

  const char* name() const { return name_; }
  /// Grows with every node of the process: inputs always have smaller ones.
  uint64_t sequence() const { return sequence_; }
  /// Gives up what is saved; where that was anything, the rule cannot run again.
  void release_saved();
  /// What is saved stays, except what was computed from packed values and can be again.
  void drop_unpacked();
  void destroy();

  InlineVector<Edge, 3> edges;  // one per input, to the node that computed it
  InlineVector<OutputInfo, 1> outputs;
  std::vector<SavedValue> saved;
  bool saved_released = false;
  const std::string* origin = nullptr;  // where the forward ran; known in anomaly mode and when profiled

  /// Gradient hooks of the outputs, kept apart since few nodes have any. Handles find a hook, and the list
  /// that it is in, by weak references: either may go before the handle, and hooks move to another node.
  struct Hook;
  using Hooks = std::vector<std::shared_ptr<Hook>>;
  struct Hook {
    int slot;
    GradientHook call;
    std::string variable;  // the name it was registered on
    std::weak_ptr<Hooks> list;
  };
  std::shared_ptr<Hooks> hooks;
  bool has_hooks() const { return hooks && !hooks->empty(); }
  struct Retained {
    int slot;
    VariableImpl* variable;
  };
  std::unique_ptr<std::vector<Retained>> retained_variables;

  // A note of one running backward: which one (0: none), and this node's place in it. Another that meets the
  // node meanwhile, around the first or in another thread, keeps its place elsewhere.
  std::atomic<uint64_t> run_id{0};
  uint32_t place = 0;

 private:
  const char* name_;
  uint64_t sequence_;
};

/// The end of a path: adds what arrives to a leaf's gradient. Holds no reference to the leaf; a leaf that is
/// gone receives nothing.
class LeafNode final : public Node {
 public:
  explicit LeafNode(VariableImpl* leaf) : Node("leaf"), leaf(leaf) {}
  Gradients run(const Incoming&, const Wanted&) override { return {}; }
  LeafNode* as_leaf() override { return this; }

  VariableImpl* leaf;
  /// Held while something is added to the leaf's gradient: threads may share a leaf. Recursive, for a rule
  /// that runs a backward of its own.
  std::recursive_mutex accumulation;
  struct Accumulated {
    int64_t id;
    AccumulatedHook call;
  };
  std::vector<Accumulated> accumulated_hooks;
};

/// The edge that leads to `x`: its node and slot, or its LeafNode; null when it needs no gradient.
Edge gradient_edge(const Variable& x);

/// Makes `edge` what computed the numbers of `x`: hooks and retained gradients of `x` move there.
void set_history(VariableImpl& x, Edge edge);

}  // namespace tessera
