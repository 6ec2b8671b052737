// Calls about graphs: a handle that names nothing is an error.
#pragma once

#include "tools/cuda_sim/runtime/graph/node_api.h"

namespace tessera::cuda_sim {

/// Runs `body(Call&, Graph&)`.
template <class Body>
cudaError_t with_graph(const char* name, cudaGraph_t handle, Body body) {
  return api_call(name, [&](Call& call) {
    Graph* graph = find_graph(call, handle);
    return graph == nullptr ? cudaErrorInvalidValue : body(call, *graph);
  });
}

/// Runs `body(Call&, GraphNode&)`.
template <class Body>
cudaError_t with_node(const char* name, cudaGraphNode_t handle, Body body) {
  return api_call(name, [&](Call& call) {
    GraphNode* node = find_node(call, handle);
    return node == nullptr ? cudaErrorInvalidValue : body(call, *node);
  });
}

/// Runs `body(Call&, Parameters&)` for a node of one kind.
template <class Parameters, class Body>
cudaError_t with_node_of(const char* name, cudaGraphNode_t handle, Body body) {
  return with_node(name, handle, [&](Call& call, GraphNode& node) {
    auto* parameters = std::get_if<Parameters>(&node.parameters);
    return parameters == nullptr ? cudaErrorInvalidValue : body(call, *parameters);
  });
}

/// Copies handles as CUDA's listing calls do: into `list` where there is one, else only their number.
template <class Handle, class Objects>
cudaError_t give_list(const Objects& objects, Handle* list, size_t* count) {
  if (count == nullptr) return cudaErrorInvalidValue;
  if (list == nullptr) {
    *count = objects.size();
    return cudaSuccess;
  }
  for (size_t i = 0; i < *count; ++i)
    list[i] = i < objects.size() ? reinterpret_cast<Handle>(objects[i]) : nullptr;
  *count = std::min(*count, objects.size());
  return cudaSuccess;
}

}  // namespace tessera::cuda_sim
