#pragma once

#include <cstdint>
#include <memory>
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
  void release_saved();
  void destroy();

  InlineVector<Edge, 3> edges;  // one per input, to the node that computed it
  InlineVector<OutputInfo, 1> outputs;
  std::vector<SavedValue> saved;
  bool saved_released = false;
  bool retained = false;                // the running backward keeps what is saved
  const std::string* origin = nullptr;  // where the forward ran; known in anomaly mode and when profiled

  /// Gradient hooks by output, kept apart since few nodes have any.
  struct Hook {
    int64_t id;
    int slot;
    GradientHook call;
  };
  std::unique_ptr<std::vector<Hook>> hooks;
  struct Retained {
    int slot;
    VariableImpl* variable;
  };
  std::unique_ptr<std::vector<Retained>> retained_variables;

  // The engine's notes of the run in progress: which run, and this node's place in it.
  uint64_t run_id = 0;
  uint64_t visited_by = 0;
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
  struct Accumulated {
    int64_t id;
    AccumulatedHook call;
  };
  std::vector<Accumulated> accumulated_hooks;
};

/// The edge that leads to `x`: its node and slot, or its LeafNode (made on first use); null when it needs no
/// gradient.
Edge gradient_edge(const Variable& x);

}  // namespace tessera
