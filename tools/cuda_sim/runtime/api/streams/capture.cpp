// Stream capture.
#include <cuda_runtime_api.h>

#include "tools/cuda_sim/runtime/state/call.h"

using namespace tessera::cuda_sim;

namespace {

/// Runs `body(Call&, Stream&)` for a stream that exists.
template <class Body>
cudaError_t with_stream(const char* name, cudaStream_t handle, Body body) {
  return api_call(name, [&](Call& call) {
    Stream* stream = call.stream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(call, *stream);
  });
}

cudaStreamCaptureStatus status_of(const Stream& stream) {
  if (stream.capture == nullptr) return cudaStreamCaptureStatusNone;
  return stream.capture->is_invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return with_stream("cudaStreamBeginCapture", handle, [&](Call& call, Stream& stream) {
    if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed)
      return cudaErrorInvalidValue;
    return begin_capture(call, stream, mode);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return with_stream("cudaStreamEndCapture", handle, [&](Call& call, Stream& stream) {
    if (graph == nullptr) return cudaErrorInvalidValue;
    *graph = nullptr;
    std::unique_ptr<Graph> captured;
    const cudaError_t result = end_capture(call, stream, captured);
    if (captured) *graph = reinterpret_cast<cudaGraph_t>(call.runtime.graphs.add(std::move(captured)));
    return result;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return with_stream("cudaStreamIsCapturing", handle, [&](Call& call, Stream& stream) {
    if (status == nullptr) return cudaErrorInvalidValue;
    if (stream.kind == Stream::Kind::legacy && call.runtime.captures.size() != 0)
      if (const cudaError_t error = check_stream_for_work(call, stream)) return error;
    *status = status_of(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  return with_stream("cudaStreamGetCaptureInfo", handle, [&](Call&, Stream& stream) {
    if (status == nullptr) return cudaErrorInvalidValue;
    *status = status_of(stream);
    if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
    if (id != nullptr) *id = stream.capture->id;
    if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(stream.capture->graph.get());
    if (dependencies != nullptr)
      *dependencies = reinterpret_cast<const cudaGraphNode_t*>(stream.capture_front.data());
    if (edges != nullptr) *edges = nullptr;
    if (count != nullptr) *count = stream.capture_front.size();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t* dependencies,
                                                const cudaGraphEdgeData* edges, size_t count,
                                                unsigned flags) {
  return with_stream("cudaStreamUpdateCaptureDependencies", handle, [&](Call&, Stream& stream) {
    if (edges != nullptr || (count != 0 && dependencies == nullptr)) return cudaErrorInvalidValue;
    if (stream.capture == nullptr) return cudaErrorIllegalState;
    std::vector<GraphNode*> nodes;
    for (size_t i = 0; i < count; ++i) {
      GraphNode* node = stream.capture->graph->find(dependencies[i]);
      if (node == nullptr) return cudaErrorInvalidValue;
      nodes.push_back(node);
    }
    if (flags != cudaStreamSetCaptureDependencies)
      nodes.insert(nodes.begin(), stream.capture_front.begin(), stream.capture_front.end());
    stream.capture_front = std::move(nodes);
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return api_call("cudaThreadExchangeStreamCaptureMode", [&](Call& call) {
    if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal || *mode > cudaStreamCaptureModeRelaxed)
      return cudaErrorInvalidValue;
    std::swap(*mode, call.thread.capture_mode);
    return cudaSuccess;
  });
}

}  // extern "C"
