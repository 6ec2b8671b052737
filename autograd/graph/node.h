#pragma once  // not in tessera.h

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "autograd/gradients.h"
#include "autograd/graph/saved.h"

namespace tessera {

/// Shape and dtype of an output of an operation.
struct OutputInfo {
  Shape shape;        ///< that of its gradient too, which is checked against it
  DType dtype = f32;  ///< of the output
};

/// Receives the grad_outputs of an operation before its rule runs: one per output, undefined for one that
/// nothing used. May return others instead of them; an empty list leaves them as they are.
using NodePreHook = std::function<std::vector<Variable>(const std::vector<Variable>& grad_outputs)>;
/// Receives the gradients that a rule returned, one per input (undefined where none is needed), and its
/// grad_outputs. May return others instead of the former; an empty list leaves them as they are.
using NodeHook = std::function<std::vector<Variable>(const std::vector<Variable>& grad_inputs,
                                                     const std::vector<Variable>& grad_outputs)>;

/// One recorded operation: the edges to the nodes of its inputs, its saved values and its backward rule.
/// A node without references is put on a list of this thread, which the outermost release empties: freeing a
/// graph of any depth does not recurse.
class Node : public RefCounted<Node> {
 public:
  /// `name`: a string literal; it is not copied.
  explicit Node(const char* name);
  virtual ~Node() = default;

  /// Runs the rule on the grad_outputs.
  virtual Gradients run(const Incoming& incoming, const Wanted& wanted) = 0;
  /// This node if it is a LeafNode, else null.
  virtual LeafNode* as_leaf() { return nullptr; }

  /// The operation's name, as given to `record`; "leaf" for a LeafNode.
  const char* name() const { return name_; }
  /// Grows with every node of the process: the nodes of the inputs have smaller ones.
  uint64_t sequence() const { return sequence_; }
  /// Releases the saved values. If there were any, the rule cannot run again.
  void release_saved();
  /// Drops what sources of saved values produced and can produce again; other saved values stay.
  void drop_produced();
  /// Registers a hook of the operation itself: called in every backward that runs its rule, after the hooks
  /// of its outputs, before the rule or after it, in order of registration. `x.grad_fn()` is the node of x;
  /// an in-place change of x gives it another node, on which the hook is not. Backward throws AutogradError
  /// for a list of another length, and ShapeError, DTypeError or DeviceError naming the operation for a
  /// gradient unlike the one that it replaces.
  /// @{
  HookHandle register_prehook(NodePreHook hook);
  HookHandle register_hook(NodeHook hook);
  /// @}
  /// Called at the last release of a reference (RefCounted).
  void destroy();

  InlineVector<Edge, 3> edges;               ///< one per input, to the node that computed it
  InlineVector<OutputInfo, 1> outputs;       ///< one per output; empty for a LeafNode
  std::vector<SavedValue> saved;             ///< what the rule reads, in the order of its declaration
  bool saved_released = false;               ///< saved values were freed: the rule cannot run again
  const std::string* module_name = nullptr;  ///< where the forward ran; set in anomaly mode and when profiled

  struct Hook;
  /// The hooks of a node and of its outputs.
  using Hooks = std::vector<std::shared_ptr<Hook>>;
  /// A gradient hook of an output, or a hook of the operation. A handle refers to its hook, and the hook to
  /// its list, weakly: both may be deleted earlier, and hooks of outputs move to another node.
  struct Hook {
    int output;                 ///< the output, of which the hook gets the gradient; -1: of the operation
    GradientHook call;          ///< the registered function of an output
    std::string variable_name;  ///< of the Variable that it was registered on
    std::weak_ptr<Hooks> list;  ///< in which it is
    NodePreHook before = {};    ///< of the operation: called before its rule
    NodeHook after = {};        ///< of the operation: called after its rule
  };
  /// Null where no hook was registered: few nodes have any.
  std::shared_ptr<Hooks> hooks;
  /// Whether the operation or an output has a hook.
  bool has_hooks() const { return hooks && !hooks->empty(); }

  /// A computed Variable that keeps its gradient (`Variable::retain_grad`).
  struct Retained {
    int output;              ///< the output that it is
    VariableImpl* variable;  ///< not a reference: its destructor removes this entry
  };
  /// The outputs that keep their gradients; null where `retain_grad` was not called.
  std::unique_ptr<std::vector<Retained>> retained_variables;

  /// The engine that uses this node (0: none), and the index of the node's state there. Another engine that
  /// reaches the node meanwhile (an outer one, or one of another thread) keeps its index in a hash table.
  /// @{
  std::atomic<uint64_t> engine_id{0};
  uint32_t state_index = 0;
  /// @}

 private:
  const char* name_;
  uint64_t sequence_;
};

/// The end of a path: what arrives is added to a leaf's gradient. Holds no reference to the leaf; once the
/// leaf is deleted, nothing is added.
class LeafNode final : public Node {
 public:
  /// The node of `leaf`. The leaf holds a reference to the node.
  explicit LeafNode(VariableImpl* of) : Node("leaf"), leaf(of) {}
  Gradients run(const Incoming&, const Wanted&) override { return {}; }
  LeafNode* as_leaf() override { return this; }

  VariableImpl* leaf;  ///< null once it is deleted, or computed by an in-place operation
  /// Locked while the leaf's gradient is changed: threads may share a leaf. Recursive, because a rule may run
  /// a backward of its own.
  std::recursive_mutex accumulation_mutex;
  /// A hook of `Variable::register_post_accumulate_grad_hook`.
  struct PostAccumulate {
    int64_t id;                   ///< by which its handle finds it; unique in the process
    PostAccumulateGradHook call;  ///< the registered function
  };
  std::vector<PostAccumulate> post_accumulate_hooks;  ///< in order of registration
};

/// Adds a hook to `node`; the handle removes it.
HookHandle add_hook(Node& node, Node::Hook hook);

/// The edge that leads to `x`: its node and output, or its LeafNode; null when `x` needs no gradient.
Edge gradient_edge(const Variable& x);

/// Makes `edge` the history of `x`. Hooks and retained gradients of `x` move to its node.
void set_history(VariableImpl& x, Edge edge);

}  // namespace tessera
