// Executable graphs: made, changed, launched.
#include <cuda_runtime_api.h>

#include "tools/cuda_sim/runtime/api/graphs/with_graph.h"
#include "tools/cuda_sim/runtime/api/memory/copies.h"

using namespace tessera::cuda_sim;

namespace {

cudaError_t instantiate(const char* name, cudaGraphExec_t* exec, cudaGraph_t handle,
                        unsigned long long flags) {
  return with_graph(name, handle, [&](Call& call, Graph& graph) {
    if (exec == nullptr) return cudaErrorInvalidValue;
    if ((flags & cudaGraphInstantiateFlagDeviceLaunch) != 0) return cudaErrorNotSupported;
    auto made = std::make_unique<GraphExec>(graph);
    made->flags = flags;
    *exec = reinterpret_cast<cudaGraphExec_t>(call.runtime.graph_execs.add(std::move(made)));
    return cudaSuccess;
  });
}

/// Runs `body(Call&, GraphExec&)`.
template <class Body>
cudaError_t with_exec(const char* name, cudaGraphExec_t handle, Body body) {
  return api_call(name, [&](Call& call) {
    GraphExec* exec = call.runtime.graph_execs.find(handle);
    return exec == nullptr ? cudaErrorInvalidValue : body(call, *exec);
  });
}

/// The executable node that was made of a node. A clone's nodes know that too.
GraphExec::Node* find(Call& call, GraphExec& exec, cudaGraphNode_t handle) {
  const GraphNode* node = find_node(call, handle);
  return node == nullptr ? nullptr : exec.find(node->number);
}

/// Replaces an executable node's parameters by others of the same kind, which `make` gives.
template <class Make>
cudaError_t set(const char* name, cudaGraphExec_t handle, cudaGraphNode_t node_handle, Make make) {
  return with_exec(name, handle, [&](Call& call, GraphExec& exec) {
    GraphExec::Node* node = find(call, exec, node_handle);
    if (node == nullptr) return cudaErrorInvalidValue;
    NodeParameters parameters;
    if (const cudaError_t error = make(call, parameters)) return error;
    if (node_type(parameters) != node_type(node->parameters)) return cudaErrorInvalidValue;
    node->parameters = std::move(parameters);
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return instantiate("cudaGraphInstantiate", exec, graph, flags);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return instantiate("cudaGraphInstantiateWithFlags", exec, graph, flags);
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams* parameters) {
  if (parameters == nullptr)
    return api_call("cudaGraphInstantiateWithParams", [](Call&) { return cudaErrorInvalidValue; });
  const cudaError_t error = instantiate("cudaGraphInstantiateWithParams", exec, graph, parameters->flags);
  parameters->result_out = error == cudaSuccess ? cudaGraphInstantiateSuccess : cudaGraphInstantiateError;
  parameters->errNode_out = nullptr;
  return error;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return with_exec("cudaGraphExecDestroy", handle, [&](Call& call, GraphExec& exec) {
    for (const uint32_t chain : exec.chains) call.runtime.log.release_chain(chain);
    call.runtime.graph_execs.remove(handle);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t handle, unsigned long long* flags) {
  return with_exec("cudaGraphExecGetFlags", handle, [&](Call&, GraphExec& exec) {
    if (flags == nullptr) return cudaErrorInvalidValue;
    *flags = exec.flags;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  return with_exec("cudaGraphLaunch", handle, [&](Call& call, GraphExec& exec) {
    Stream* stream = call.stream(stream_handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_stream_for_work(call, *stream)) return error;
    if (stream->capture != nullptr) {
      stream->capture->is_invalid = true;
      call.report(Check::capture, "an executable graph cannot be captured here; add a child graph");
      return cudaErrorStreamCaptureUnsupported;
    }
    exec.launch(call.runtime, call.lock, *stream);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t) {
  return with_exec("cudaGraphUpload", handle, [](Call&, GraphExec&) { return cudaSuccess; });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* parameters) {
  return set("cudaGraphExecKernelNodeSetParams", exec, node,
             [&](Call& call, NodeParameters& made) { return from_cuda(call, parameters, made); });
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* parameters) {
  return set("cudaGraphExecMemcpyNodeSetParams", exec, node,
             [&](Call& call, NodeParameters& made) { return from_cuda(call, parameters, made); });
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                               const void* from, size_t bytes, cudaMemcpyKind kind) {
  return set("cudaGraphExecMemcpyNodeSetParams1D", exec, node, [&](Call& call, NodeParameters& made) {
    CopyParameters copy = bytes_copy(to, from, bytes, kind);
    if (const cudaError_t error = check_copy(call, copy)) return error;
    made = std::move(copy);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemsetParams* parameters) {
  return set("cudaGraphExecMemsetNodeSetParams", exec, node,
             [&](Call& call, NodeParameters& made) { return from_cuda(call, parameters, made); });
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* parameters) {
  return set("cudaGraphExecHostNodeSetParams", exec, node,
             [&](Call& call, NodeParameters& made) { return from_cuda(call, parameters, made); });
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 cudaEvent_t event) {
  return set("cudaGraphExecEventRecordNodeSetEvent", exec, node,
             [&](Call& call, NodeParameters& made) { return from_cuda(call, event, false, made); });
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                               cudaEvent_t event) {
  return set("cudaGraphExecEventWaitNodeSetEvent", exec, node,
             [&](Call& call, NodeParameters& made) { return from_cuda(call, event, true, made); });
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t handle, cudaGraphNode_t node_handle,
                                    unsigned is_enabled) {
  return with_exec("cudaGraphNodeSetEnabled", handle, [&](Call& call, GraphExec& exec) {
    GraphExec::Node* node = find(call, exec, node_handle);
    if (node == nullptr || node_type(node->parameters) > cudaGraphNodeTypeMemset)
      return cudaErrorInvalidValue;
    node->is_enabled = is_enabled != 0;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t handle, cudaGraphNode_t node_handle,
                                    unsigned* is_enabled) {
  return with_exec("cudaGraphNodeGetEnabled", handle, [&](Call& call, GraphExec& exec) {
    const GraphExec::Node* node = find(call, exec, node_handle);
    if (node == nullptr || is_enabled == nullptr) return cudaErrorInvalidValue;
    *is_enabled = node->is_enabled ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t handle, cudaGraph_t graph_handle,
                                cudaGraphExecUpdateResultInfo* information) {
  return with_exec("cudaGraphExecUpdate", handle, [&](Call& call, GraphExec& exec) {
    const Graph* graph = find_graph(call, graph_handle);
    if (graph == nullptr) return cudaErrorInvalidValue;
    const GraphExec made(*graph);
    cudaGraphExecUpdateResult result = cudaGraphExecUpdateSuccess;
    if (made.nodes.size() != exec.nodes.size()) result = cudaGraphExecUpdateErrorTopologyChanged;
    for (size_t i = 0; i < made.nodes.size() && result == cudaGraphExecUpdateSuccess; ++i) {
      if (made.nodes[i].dependencies != exec.nodes[i].dependencies)
        result = cudaGraphExecUpdateErrorTopologyChanged;
      else if (node_type(made.nodes[i].parameters) != node_type(exec.nodes[i].parameters))
        result = cudaGraphExecUpdateErrorNodeTypeChanged;
    }
    if (information != nullptr) {
      *information = {};
      information->result = result;
    }
    if (result != cudaGraphExecUpdateSuccess) return cudaErrorGraphExecUpdateFailure;
    for (size_t i = 0; i < made.nodes.size(); ++i) exec.nodes[i].parameters = made.nodes[i].parameters;
    return cudaSuccess;
  });
}

}  // extern "C"
