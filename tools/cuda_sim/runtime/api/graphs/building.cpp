// Graphs built by hand.
#include <cuda_runtime_api.h>

#include "tools/cuda_sim/runtime/api/graphs/with_graph.h"
#include "tools/cuda_sim/runtime/api/memory/copies.h"

using namespace tessera::cuda_sim;

namespace {

/// Adds a node of which the parameters `make(Call&, NodeParameters&)` gives.
template <class Make>
cudaError_t add(const char* name, cudaGraphNode_t* node, cudaGraph_t handle,
                const cudaGraphNode_t* dependencies, size_t count, Make make) {
  return with_graph(name, handle, [&](Call& call, Graph& graph) {
    if (node == nullptr) return cudaErrorInvalidValue;
    auto before = find_nodes(graph, dependencies, count);
    if (!before) return cudaErrorInvalidValue;
    NodeParameters parameters;
    if (const cudaError_t error = make(call, parameters)) return error;
    *node = reinterpret_cast<cudaGraphNode_t>(graph.add(std::move(parameters), std::move(*before)));
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return api_call("cudaGraphCreate", [&](Call& call) {
    if (graph == nullptr || flags != 0) return cudaErrorInvalidValue;
    *graph = reinterpret_cast<cudaGraph_t>(call.runtime.graphs.add(std::make_unique<Graph>()));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api_call("cudaGraphDestroy", [&](Call& call) {
    return call.runtime.graphs.remove(graph) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t original) {
  return with_graph("cudaGraphClone", original, [&](Call& call, Graph& graph) {
    if (clone == nullptr) return cudaErrorInvalidValue;
    *clone = reinterpret_cast<cudaGraph_t>(call.runtime.graphs.add(graph.clone()));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* found, cudaGraphNode_t original, cudaGraph_t clone) {
  return with_graph("cudaGraphNodeFindInClone", clone, [&](Call& call, Graph& graph) {
    const GraphNode* node = find_node(call, original);
    if (found == nullptr || node == nullptr) return cudaErrorInvalidValue;
    for (const auto& one : graph.nodes)
      if (one->original == node->number) {
        *found = reinterpret_cast<cudaGraphNode_t>(one.get());
        return cudaSuccess;
      }
    return cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                   size_t count, const cudaKernelNodeParams* parameters) {
  return add("cudaGraphAddKernelNode", node, graph, before, count,
             [&](Call& call, NodeParameters& made) { return from_cuda(call, parameters, made); });
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                   size_t count, const cudaMemcpy3DParms* parameters) {
  return add("cudaGraphAddMemcpyNode", node, graph, before, count,
             [&](Call& call, NodeParameters& made) { return from_cuda(call, parameters, made); });
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                     size_t count, void* to, const void* from, size_t bytes,
                                     cudaMemcpyKind kind) {
  return add("cudaGraphAddMemcpyNode1D", node, graph, before, count, [&](Call& call, NodeParameters& made) {
    CopyParameters copy = bytes_copy(to, from, bytes, kind);
    if (const cudaError_t error = check_copy(call, copy)) return error;
    made = std::move(copy);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                   size_t count, const cudaMemsetParams* parameters) {
  return add("cudaGraphAddMemsetNode", node, graph, before, count,
             [&](Call& call, NodeParameters& made) { return from_cuda(call, parameters, made); });
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                 size_t count, const cudaHostNodeParams* parameters) {
  return add("cudaGraphAddHostNode", node, graph, before, count,
             [&](Call& call, NodeParameters& made) { return from_cuda(call, parameters, made); });
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                        const cudaGraphNode_t* before, size_t count, cudaEvent_t event) {
  return add("cudaGraphAddEventRecordNode", node, graph, before, count,
             [&](Call& call, NodeParameters& made) { return from_cuda(call, event, false, made); });
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                      size_t count, cudaEvent_t event) {
  return add("cudaGraphAddEventWaitNode", node, graph, before, count,
             [&](Call& call, NodeParameters& made) { return from_cuda(call, event, true, made); });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                  size_t count) {
  return add("cudaGraphAddEmptyNode", node, graph, before, count, [&](Call&, NodeParameters& made) {
    made = EmptyParameters{};
    return cudaSuccess;
  });
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                       const cudaGraphNode_t* before, size_t count,
                                       cudaGraph_t child_handle) {
  return add("cudaGraphAddChildGraphNode", node, graph, before, count, [&](Call& call, NodeParameters& made) {
    const Graph* child = find_graph(call, child_handle);
    if (child == nullptr || child_handle == graph) return cudaErrorInvalidValue;
    ChildParameters parameters{.graph = child->clone()};
    parameters.graph->is_child = true;
    made = std::move(parameters);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t handle, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                     size_t count) {
  return with_graph("cudaGraphAddDependencies", handle, [&](Call&, Graph& graph) {
    if (edges != nullptr || (count != 0 && (from == nullptr || to == nullptr))) return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      GraphNode *first = graph.find(from[i]), *second = graph.find(to[i]);
      if (first == nullptr || second == nullptr) return cudaErrorInvalidValue;
      if (std::ranges::find(second->dependencies, first) != second->dependencies.end())
        return cudaErrorInvalidValue;
      second->dependencies.push_back(first);
      if (!graph.is_acyclic()) {
        second->dependencies.pop_back();
        return cudaErrorInvalidValue;
      }
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t handle, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                        size_t count) {
  return with_graph("cudaGraphRemoveDependencies", handle, [&](Call&, Graph& graph) {
    if (edges != nullptr || (count != 0 && (from == nullptr || to == nullptr))) return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      GraphNode *first = graph.find(from[i]), *second = graph.find(to[i]);
      if (first == nullptr || second == nullptr || std::erase(second->dependencies, first) == 0)
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t handle) {
  return with_node("cudaGraphDestroyNode", handle, [](Call&, GraphNode& node) {
    Graph& graph = *node.graph;
    for (const auto& other : graph.nodes) std::erase(other->dependencies, &node);
    std::erase_if(graph.nodes, [&](const auto& one) { return one.get() == &node; });
    return cudaSuccess;
  });
}

}  // extern "C"
