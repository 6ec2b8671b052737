// Graphs: nodes and what they depend on; executable graphs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tools/cuda_sim/runtime/graph/node_parameters.h"
#include "tools/cuda_sim/runtime/schedule/scheduler.h"

namespace tessera::cuda_sim {

struct Stream;

struct GraphNode {
  Graph* graph = nullptr;
  uint64_t number = 0;    ///< in the process: a node of an executable graph is known by it
  uint64_t original = 0;  ///< of a clone: the number of the node that it was made of
  NodeParameters parameters;
  std::vector<GraphNode*> dependencies;
  std::vector<void*> kernel_arguments;  ///< of cudaGraphKernelNodeGetParams, into `parameters`
};

struct Graph {
  std::vector<std::unique_ptr<GraphNode>> nodes;  ///< in the order in which they were added
  bool is_child = false;  ///< it belongs to a node, and is not the program's to destroy

  GraphNode* add(NodeParameters parameters, std::vector<GraphNode*> dependencies);
  GraphNode* find(const void* node) const;
  /// False: a node would come before itself.
  bool is_acyclic() const;
  /// Each node behind those that it depends on.
  std::vector<GraphNode*> in_order() const;
  std::unique_ptr<Graph> clone() const;
};

/// A graph made ready to run: child graphs are laid open, each node knows its branch.
struct GraphExec {
  struct Node {
    uint64_t number = 0;
    NodeParameters parameters;
    std::vector<size_t> dependencies;  ///< indices of nodes before it
    int branch = 0;        ///< nodes of a branch follow one another; 0: on the stream of the launch
    bool is_last = false;  ///< nothing depends on it
    bool is_enabled = true;
  };
  std::vector<Node> nodes;
  int branches = 1;
  std::vector<uint32_t> chains;  ///< of the branches from 1 on
  Operation last_launch = 0;     ///< launches of one executable graph follow one another
  unsigned long long flags = 0;

  explicit GraphExec(const Graph& graph);
  Node* find(uint64_t number);
  /// Issues all nodes behind what the stream holds.
  void launch(Runtime& runtime, Scheduler::Lock& lock, Stream& stream);

 private:
  std::vector<size_t> append(const Graph& graph, const std::vector<size_t>& before);
  void find_branches();
};

}  // namespace tessera::cuda_sim
