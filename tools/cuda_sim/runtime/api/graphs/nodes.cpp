// Graphs asked about their nodes, and nodes changed.
#include <cuda_runtime_api.h>

#include "tools/cuda_sim/runtime/api/graphs/with_graph.h"
#include "tools/cuda_sim/runtime/api/memory/copies.h"

using namespace tessera::cuda_sim;

namespace {

/// Replaces a node's parameters by others of the same kind.
template <class Parameters, class CudaParameters>
cudaError_t set(const char* name, cudaGraphNode_t handle, const CudaParameters* parameters) {
  return with_node(name, handle, [&](Call& call, GraphNode& node) {
    if (!std::holds_alternative<Parameters>(node.parameters)) return cudaErrorInvalidValue;
    return from_cuda(call, parameters, node.parameters);
  });
}

cudaError_t set_event(const char* name, cudaGraphNode_t handle, cudaEvent_t event, bool is_wait) {
  return with_node(name, handle, [&](Call& call, GraphNode& node) {
    const auto* old = std::get_if<EventParameters>(&node.parameters);
    if (old == nullptr || old->is_wait != is_wait) return cudaErrorInvalidValue;
    return from_cuda(call, event, is_wait, node.parameters);
  });
}

cudaError_t get_event(const char* name, cudaGraphNode_t handle, cudaEvent_t* event, bool is_wait) {
  return with_node_of<EventParameters>(name, handle, [&](Call&, EventParameters& parameters) {
    if (event == nullptr || parameters.is_wait != is_wait) return cudaErrorInvalidValue;
    *event = parameters.handle;
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* list, size_t* count) {
  return with_graph("cudaGraphGetNodes", handle, [&](Call&, Graph& graph) {
    std::vector<GraphNode*> nodes;
    for (const auto& node : graph.nodes) nodes.push_back(node.get());
    return give_list(nodes, list, count);
  });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t handle, cudaGraphNode_t* list, size_t* count) {
  return with_graph("cudaGraphGetRootNodes", handle, [&](Call&, Graph& graph) {
    std::vector<GraphNode*> nodes;
    for (const auto& node : graph.nodes)
      if (node->dependencies.empty()) nodes.push_back(node.get());
    return give_list(nodes, list, count);
  });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t handle, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* edges, size_t* count) {
  return with_graph("cudaGraphGetEdges", handle, [&](Call&, Graph& graph) {
    if (count == nullptr || (from == nullptr) != (to == nullptr)) return cudaErrorInvalidValue;
    std::vector<GraphNode*> first, second;
    for (const auto& node : graph.nodes)
      for (GraphNode* before : node->dependencies) {
        first.push_back(before);
        second.push_back(node.get());
      }
    if (edges != nullptr) std::fill(edges, edges + std::min(*count, first.size()), cudaGraphEdgeData{});
    size_t again = *count;
    if (const cudaError_t error = give_list(first, from, &again)) return error;
    return give_list(second, to, count);
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t handle, cudaGraphNodeType* type) {
  return with_node("cudaGraphNodeGetType", handle, [&](Call&, GraphNode& node) {
    if (type == nullptr) return cudaErrorInvalidValue;
    *type = node_type(node.parameters);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t handle, cudaGraphNode_t* list,
                                         cudaGraphEdgeData* edges, size_t* count) {
  return with_node("cudaGraphNodeGetDependencies", handle, [&](Call&, GraphNode& node) {
    if (edges != nullptr && count != nullptr) std::fill(edges, edges + *count, cudaGraphEdgeData{});
    return give_list(node.dependencies, list, count);
  });
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t handle, cudaGraphNode_t* list,
                                           cudaGraphEdgeData* edges, size_t* count) {
  return with_node("cudaGraphNodeGetDependentNodes", handle, [&](Call&, GraphNode& node) {
    std::vector<GraphNode*> dependents;
    for (const auto& other : node.graph->nodes)
      if (std::ranges::find(other->dependencies, &node) != other->dependencies.end())
        dependents.push_back(other.get());
    if (edges != nullptr && count != nullptr) std::fill(edges, edges + *count, cudaGraphEdgeData{});
    return give_list(dependents, list, count);
  });
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t handle, cudaKernelNodeParams* parameters) {
  return with_node("cudaGraphKernelNodeGetParams", handle, [&](Call& call, GraphNode& node) {
    if (parameters == nullptr || !std::holds_alternative<KernelParameters>(node.parameters))
      return cudaErrorInvalidValue;
    *parameters = to_cuda_kernel(call, node);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* parameters) {
  return set<KernelParameters>("cudaGraphKernelNodeSetParams", node, parameters);
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t handle, cudaMemcpy3DParms* parameters) {
  return with_node_of<CopyParameters>("cudaGraphMemcpyNodeGetParams", handle,
                                      [&](Call&, CopyParameters& copy) {
                                        if (parameters == nullptr) return cudaErrorInvalidValue;
                                        *parameters = to_cuda(copy);
                                        return cudaSuccess;
                                      });
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* parameters) {
  return set<CopyParameters>("cudaGraphMemcpyNodeSetParams", node, parameters);
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t handle, void* to, const void* from, size_t bytes,
                                           cudaMemcpyKind kind) {
  return with_node_of<CopyParameters>("cudaGraphMemcpyNodeSetParams1D", handle,
                                      [&](Call& call, CopyParameters& copy) {
                                        CopyParameters made = bytes_copy(to, from, bytes, kind);
                                        if (const cudaError_t error = check_copy(call, made)) return error;
                                        copy = std::move(made);
                                        return cudaSuccess;
                                      });
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t handle, cudaMemsetParams* parameters) {
  return with_node_of<FillParameters>("cudaGraphMemsetNodeGetParams", handle,
                                      [&](Call&, FillParameters& fill) {
                                        if (parameters == nullptr) return cudaErrorInvalidValue;
                                        *parameters = to_cuda(fill);
                                        return cudaSuccess;
                                      });
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* parameters) {
  return set<FillParameters>("cudaGraphMemsetNodeSetParams", node, parameters);
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t handle, cudaHostNodeParams* parameters) {
  return with_node_of<HostParameters>("cudaGraphHostNodeGetParams", handle, [&](Call&, HostParameters& host) {
    if (parameters == nullptr) return cudaErrorInvalidValue;
    *parameters = {host.function, host.data};
    return cudaSuccess;
  });
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* parameters) {
  return set<HostParameters>("cudaGraphHostNodeSetParams", node, parameters);
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return get_event("cudaGraphEventRecordNodeGetEvent", node, event, false);
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return set_event("cudaGraphEventRecordNodeSetEvent", node, event, false);
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return get_event("cudaGraphEventWaitNodeGetEvent", node, event, true);
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return set_event("cudaGraphEventWaitNodeSetEvent", node, event, true);
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t handle, cudaGraph_t* graph) {
  return with_node_of<ChildParameters>("cudaGraphChildGraphNodeGetGraph", handle,
                                       [&](Call&, ChildParameters& child) {
                                         if (graph == nullptr) return cudaErrorInvalidValue;
                                         *graph = reinterpret_cast<cudaGraph_t>(child.graph.get());
                                         return cudaSuccess;
                                       });
}

}  // extern "C"
