// Node parameters as CUDA's structures describe them, and back.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "tools/cuda_sim/runtime/graph/graph.h"
#include "tools/cuda_sim/runtime/state/call.h"

namespace tessera::cuda_sim {

/// Each gives cudaSuccess and fills `result`, or the error of a call with such parameters.
cudaError_t from_cuda(Call& call, const cudaKernelNodeParams* parameters, NodeParameters& result);
cudaError_t from_cuda(Call& call, const cudaMemcpy3DParms* parameters, NodeParameters& result);
cudaError_t from_cuda(Call& call, const cudaMemsetParams* parameters, NodeParameters& result);
cudaError_t from_cuda(Call& call, const cudaHostNodeParams* parameters, NodeParameters& result);
/// Of an event node.
cudaError_t from_cuda(Call& call, cudaEvent_t event, bool is_wait, NodeParameters& result);

/// The structures point into the node.
cudaKernelNodeParams to_cuda_kernel(Call& call, GraphNode& node);
cudaMemcpy3DParms to_cuda(const CopyParameters& copy);
cudaMemsetParams to_cuda(const FillParameters& fill);

Graph* find_graph(Call& call, cudaGraph_t handle);
/// A node of any live graph, of a capture or of a child graph too.
GraphNode* find_node(Call& call, cudaGraphNode_t handle);
/// The nodes of `graph` that the handles name; nothing where one is of another graph or given twice.
std::optional<std::vector<GraphNode*>> find_nodes(const Graph& graph, const cudaGraphNode_t* handles,
                                                  size_t count);

}  // namespace tessera::cuda_sim
