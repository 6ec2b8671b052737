// Stream capture: calls become nodes of a graph instead of operations.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tools/cuda_sim/runtime/graph/graph.h"

namespace tessera::cuda_sim {

class Call;
struct Event;
struct Stream;

/// One capture, from cudaStreamBeginCapture to cudaStreamEndCapture. Streams join it by waiting for an event
/// of it, and must have joined its first stream again at the end.
struct CaptureSession {
  uint64_t id = 0;
  Stream* origin = nullptr;
  std::thread::id thread;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::unique_ptr<Graph> graph;
  std::set<Stream*> streams;
  bool is_invalid = false;
};

/// Ends the captures that an unsafe call of this thread conflicts with (cudaThreadExchangeStreamCaptureMode).
/// False: there is none.
bool invalidate_captures_by_unsafe_call(Call& call);

cudaError_t begin_capture(Call& call, Stream& stream, cudaStreamCaptureMode mode);
/// Gives the graph, or null with the error.
cudaError_t end_capture(Call& call, Stream& stream, std::unique_ptr<Graph>& graph);

/// What stands in the way of an operation on `stream`: an invalid capture, or work on the legacy stream while
/// a blocking stream of its device captures.
cudaError_t check_stream_for_work(Call& call, Stream& stream);
/// The same for a wait or a query of the host on `stream`, which no capture allows.
cudaError_t check_stream_for_host(Call& call, Stream& stream);
cudaError_t check_device_for_host(Call& call);

/// Adds a node behind what the stream has captured so far.
GraphNode* capture_node(Stream& stream, NodeParameters parameters);
void capture_event(Stream& stream, Event& event);
/// `stream` waits for an event that a capture recorded, or, capturing, for one that none did.
cudaError_t capture_wait(Call& call, Stream& stream, Event& event);
void leave_capture(Call& call, Stream& stream);

}  // namespace tessera::cuda_sim
