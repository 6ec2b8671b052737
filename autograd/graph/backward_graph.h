#pragma once  // internal

#include <memory>
#include <unordered_map>
#include <vector>

#include "autograd/graph/node.h"

namespace tessera {

/// The nodes below the roots of one backward, each with an index and a state. A node itself stores its index,
/// without a hash table, unless it stores that of another backward: an outer one, or one of another thread.
class BackwardGraph {
 public:
  /// A gradient that is returned instead of accumulated: that of an output, as an entry of the results.
  struct Capture {
    int output;    ///< the output
    size_t index;  ///< the entry
  };
  /// A node in this backward.
  struct State {
    intrusive_ptr<Node> node;                        ///< visited or wanted
    InlineVector<Variable, 1> incoming;              ///< the grad_outputs: sums of what arrived so far
    std::unique_ptr<std::vector<Capture>> captures;  ///< null: none
    std::unique_ptr<std::vector<bool>> delivered;    ///< inputs finished by an earlier backward
    int dependencies = 0;                            ///< wanted edges that have not delivered here yet
    bool needed = false;                             ///< is wanted, or leads to something wanted
    bool wanted_leaf = false;                        ///< gradients are added to this leaf
    bool visited = false;                            ///< by `discover`
    bool index_is_in_node = false;                   ///< else in a hash table
  };

  BackwardGraph();
  ~BackwardGraph();
  BackwardGraph(const BackwardGraph&) = delete;
  BackwardGraph& operator=(const BackwardGraph&) = delete;

  /// The index of the node's state, which is created at first use.
  uint32_t index_of(const intrusive_ptr<Node>& node);
  /// The same for a node that has a state.
  uint32_t known_index(const Node& node) const {
    return node.engine_id.load(std::memory_order_relaxed) == id_ ? node.state_index : indices_.at(&node);
  }
  /// A state by its index; new nodes move the states in memory.
  /// @{
  State& operator[](uint32_t index) { return states_[index]; }
  const State& operator[](uint32_t index) const { return states_[index]; }
  /// @}
  /// All states, by index.
  /// @{
  std::vector<State>& states() { return states_; }
  const std::vector<State>& states() const { return states_; }
  /// @}
  /// Whether the backward goes along this edge: there is a node, and no earlier backward went along it.
  bool follows_edge(const State& state, size_t input) const {
    return state.node->edges[input].node && !(state.delivered && (*state.delivered)[input]);
  }

  /// Visits all nodes below `root`, unless that was visited. Finds for each whether it leads to something
  /// wanted (with `all_leaves`, to any leaf), and how many wanted edges deliver to it.
  void discover(uint32_t root, bool all_leaves);

 private:
  void finish_discovery(uint32_t index, bool all_leaves);

  uint64_t id_;
  std::vector<State> states_;
  std::unordered_map<const Node*, uint32_t> indices_;  // of nodes that store another backward's index
};

}  // namespace tessera
