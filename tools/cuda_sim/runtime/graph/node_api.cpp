#include "tools/cuda_sim/runtime/graph/node_api.h"

#include <algorithm>

#include "tools/cuda_sim/runtime/api/memory/copies.h"
#include "tools/cuda_sim/runtime/memory/fill_work.h"
#include "tools/cuda_sim/runtime/state/launch.h"

namespace tessera::cuda_sim {

namespace {

GraphNode* find_in(const Graph& graph, const void* handle) {
  for (const auto& node : graph.nodes) {
    if (node.get() == handle) return node.get();
    if (const auto* child = std::get_if<ChildParameters>(&node->parameters))
      if (GraphNode* found = find_in(*child->graph, handle)) return found;
  }
  return nullptr;
}

Graph* find_child(const Graph& graph, const void* handle) {
  for (const auto& node : graph.nodes)
    if (const auto* child = std::get_if<ChildParameters>(&node->parameters)) {
      if (child->graph.get() == handle) return child->graph.get();
      if (Graph* found = find_child(*child->graph, handle)) return found;
    }
  return nullptr;
}

}  // namespace

cudaError_t from_cuda(Call& call, const cudaKernelNodeParams* parameters, NodeParameters& result) {
  if (parameters == nullptr || parameters->extra != nullptr) return cudaErrorInvalidValue;
  KernelParameters kernel;
  const cudaError_t error =
      make_kernel_parameters(call, call.device(), parameters->func, parameters->gridDim, parameters->blockDim,
                             parameters->kernelParams, parameters->sharedMemBytes, kernel);
  if (error == cudaSuccess) result = std::move(kernel);
  return error;
}

cudaError_t from_cuda(Call& call, const cudaMemcpy3DParms* parameters, NodeParameters& result) {
  CopyParameters copy;
  if (!block_copy(parameters, copy)) return cudaErrorInvalidValue;
  if (const cudaError_t error = check_copy(call, copy)) return error;
  result = std::move(copy);
  return cudaSuccess;
}

cudaError_t from_cuda(Call& call, const cudaMemsetParams* parameters, NodeParameters& result) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  FillParameters fill;
  fill.to = reinterpret_cast<uint64_t>(parameters->dst);
  fill.pitch = parameters->pitch;
  fill.value = parameters->value;
  fill.element_bytes = parameters->elementSize;
  fill.width = parameters->width;
  fill.height = parameters->height;
  if (const cudaError_t error = check_fill(call, fill)) return error;
  result = fill;
  return cudaSuccess;
}

cudaError_t from_cuda(Call&, const cudaHostNodeParams* parameters, NodeParameters& result) {
  if (parameters == nullptr || parameters->fn == nullptr) return cudaErrorInvalidValue;
  result = HostParameters{.function = parameters->fn, .data = parameters->userData};
  return cudaSuccess;
}

cudaError_t from_cuda(Call& call, cudaEvent_t handle, bool is_wait, NodeParameters& result) {
  const Event* event = call.event(handle);
  if (event == nullptr) return cudaErrorInvalidValue;
  result = EventParameters{.handle = handle, .record = event->record, .is_wait = is_wait};
  return cudaSuccess;
}

cudaKernelNodeParams to_cuda_kernel(Call& call, GraphNode& node) {
  auto& kernel = std::get<KernelParameters>(node.parameters);
  cudaError_t ignored = cudaSuccess;
  const Program* program = call.runtime.kernels.program(call.device(), *kernel.function, ignored);
  node.kernel_arguments.clear();
  if (program != nullptr)
    for (const Parameter& parameter : program->parameters)
      node.kernel_arguments.push_back(kernel.bytes.data() + parameter.offset);
  cudaKernelNodeParams result{};
  result.func = const_cast<void*>(kernel.function->host);
  result.gridDim = {kernel.shape.grid.x, kernel.shape.grid.y, kernel.shape.grid.z};
  result.blockDim = {kernel.shape.block.x, kernel.shape.block.y, kernel.shape.block.z};
  result.sharedMemBytes = kernel.shape.dynamic_shared_bytes;
  result.kernelParams = node.kernel_arguments.data();
  return result;
}

cudaMemcpy3DParms to_cuda(const CopyParameters& copy) {
  const auto pitched = [&](uint64_t address, uint64_t pitch, uint64_t slice) {
    cudaPitchedPtr pointer{};
    pointer.ptr = reinterpret_cast<void*>(address);
    pointer.pitch = pitch;
    pointer.xsize = copy.width;
    pointer.ysize = pitch == 0 ? copy.height : std::max<uint64_t>(copy.height, slice / pitch);
    return pointer;
  };
  cudaMemcpy3DParms result{};
  result.dstPtr = pitched(copy.to, copy.to_pitch, copy.to_slice);
  result.srcPtr = pitched(copy.from, copy.from_pitch, copy.from_slice);
  result.extent = {copy.width, copy.height, copy.depth};
  result.kind = copy.kind;
  return result;
}

cudaMemsetParams to_cuda(const FillParameters& fill) {
  cudaMemsetParams result{};
  result.dst = reinterpret_cast<void*>(fill.to);
  result.pitch = fill.pitch;
  result.value = fill.value;
  result.elementSize = fill.element_bytes;
  result.width = fill.width;
  result.height = fill.height;
  return result;
}

Graph* find_graph(Call& call, cudaGraph_t handle) {
  if (Graph* graph = call.runtime.graphs.find(handle)) return graph;
  for (const auto& [one, session] : call.runtime.captures)
    if (session->graph.get() == reinterpret_cast<Graph*>(handle)) return session->graph.get();
  for (const auto& [one, graph] : call.runtime.graphs)
    if (Graph* found = find_child(*graph, handle)) return found;
  return nullptr;
}

GraphNode* find_node(Call& call, cudaGraphNode_t handle) {
  for (const auto& [one, graph] : call.runtime.graphs)
    if (GraphNode* node = find_in(*graph, handle)) return node;
  for (const auto& [one, session] : call.runtime.captures)
    if (session->graph)
      if (GraphNode* node = find_in(*session->graph, handle)) return node;
  return nullptr;
}

std::optional<std::vector<GraphNode*>> find_nodes(const Graph& graph, const cudaGraphNode_t* handles,
                                                  size_t count) {
  std::vector<GraphNode*> nodes;
  if (count != 0 && handles == nullptr) return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* node = graph.find(handles[i]);
    if (node == nullptr || std::ranges::find(nodes, node) != nodes.end()) return std::nullopt;
    nodes.push_back(node);
  }
  return nodes;
}

}  // namespace tessera::cuda_sim
