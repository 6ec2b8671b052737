#include "tools/cuda_sim/runtime/graph/capture.h"

#include <algorithm>
#include <utility>

#include "tools/cuda_sim/runtime/state/call.h"

namespace tessera::cuda_sim {

namespace {

uint64_t capture_count = 0;

cudaError_t invalidate(Call& call, CaptureSession& session, cudaError_t error, const char* why) {
  session.is_invalid = true;
  call.report(Check::capture, std::string(why) + "; the capture is lost");
  return error;
}

void end_session(Call& call, CaptureSession& session) {
  for (Stream* stream : session.streams) {
    stream->capture = nullptr;
    stream->capture_front.clear();
  }
  for (const auto& [handle, event] : call.runtime.events)
    if (event->capture_id == session.id) event->capture_nodes.clear();
  call.runtime.captures.remove(&session);
}

bool conflicts(const Call& call, const CaptureSession& session) {
  if (call.thread.capture_mode == cudaStreamCaptureModeRelaxed) return false;
  if (session.is_invalid) return false;
  if (session.thread == std::this_thread::get_id()) return session.mode != cudaStreamCaptureModeRelaxed;
  return call.thread.capture_mode == cudaStreamCaptureModeGlobal &&
         session.mode == cudaStreamCaptureModeGlobal;
}

CaptureSession* find_session(Call& call, uint64_t id) {
  for (const auto& [handle, session] : call.runtime.captures)
    if (session->id == id) return session.get();
  return nullptr;
}

}  // namespace

bool invalidate_captures_by_unsafe_call(Call& call) {
  bool found = false;
  for (const auto& [handle, session] : call.runtime.captures)
    if (conflicts(call, *session)) {
      session->is_invalid = true;
      found = true;
    }
  return found;
}

cudaError_t begin_capture(Call& call, Stream& stream, cudaStreamCaptureMode mode) {
  if (stream.kind == Stream::Kind::legacy) {
    call.report(Check::capture, "the legacy default stream cannot capture");
    return cudaErrorStreamCaptureUnsupported;
  }
  if (stream.capture != nullptr) return cudaErrorIllegalState;
  auto session = std::make_unique<CaptureSession>();
  session->id = ++capture_count;
  session->origin = &stream;
  session->thread = std::this_thread::get_id();
  session->mode = mode;
  session->graph = std::make_unique<Graph>();
  session->streams.insert(&stream);
  stream.capture = call.runtime.captures.add(std::move(session));
  stream.capture_front.clear();
  return cudaSuccess;
}

cudaError_t end_capture(Call& call, Stream& stream, std::unique_ptr<Graph>& graph) {
  CaptureSession* session = stream.capture;
  if (session == nullptr) return cudaErrorIllegalState;
  if (session->origin != &stream)
    return invalidate(call, *session, cudaErrorStreamCaptureUnmatched,
                      "this stream did not begin the capture");
  if (session->mode != cudaStreamCaptureModeRelaxed && session->thread != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  cudaError_t result = cudaSuccess;
  if (session->is_invalid) {
    result = cudaErrorStreamCaptureInvalidated;
  } else {
    // What another stream captured last must come before something of this stream.
    std::set<const GraphNode*> joined(stream.capture_front.begin(), stream.capture_front.end());
    for (const auto& node : session->graph->nodes)
      joined.insert(node->dependencies.begin(), node->dependencies.end());
    for (const Stream* other : session->streams)
      for (const GraphNode* node : other->capture_front)
        if (!joined.contains(node)) result = cudaErrorStreamCaptureUnjoined;
    if (result != cudaSuccess)
      call.report(Check::capture, "work of another stream was captured and not joined by an event");
  }
  if (result == cudaSuccess) graph = std::move(session->graph);
  end_session(call, *session);
  return result;
}

cudaError_t check_stream_for_work(Call& call, Stream& stream) {
  if (stream.capture != nullptr)
    return stream.capture->is_invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  if (stream.kind != Stream::Kind::legacy) return cudaSuccess;
  for (const auto& [handle, session] : call.runtime.captures) {
    if (session->is_invalid) continue;
    const bool implicit = std::ranges::any_of(session->streams, [&](const Stream* one) {
      return one->is_blocking && one->device == stream.device;
    });
    if (implicit)
      return invalidate(call, *session, cudaErrorStreamCaptureImplicit,
                        "the legacy default stream would wait for a capturing stream");
  }
  return cudaSuccess;
}

cudaError_t check_stream_for_host(Call& call, Stream& stream) {
  if (stream.capture != nullptr) {
    if (stream.capture->is_invalid) return cudaErrorStreamCaptureInvalidated;
    return invalidate(call, *stream.capture, cudaErrorStreamCaptureUnsupported,
                      "the host cannot wait for a capturing stream");
  }
  return check_stream_for_work(call, stream);
}

cudaError_t check_device_for_host(Call& call) {
  for (const auto& [handle, session] : call.runtime.captures)
    if (session->origin->device->index() == call.thread.device && !session->is_invalid)
      return invalidate(call, *session, cudaErrorStreamCaptureUnsupported,
                        "the host cannot wait for a device with a capturing stream");
  return cudaSuccess;
}

GraphNode* capture_node(Stream& stream, NodeParameters parameters) {
  GraphNode* node = stream.capture->graph->add(std::move(parameters), stream.capture_front);
  stream.capture_front = {node};
  return node;
}

void capture_event(Stream& stream, Event& event) {
  event.capture_id = stream.capture->id;
  event.capture_nodes = stream.capture_front;
}

cudaError_t capture_wait(Call& call, Stream& stream, Event& event) {
  if (event.capture_id == 0)
    return invalidate(call, *stream.capture, cudaErrorStreamCaptureIsolation,
                      "a capturing stream cannot wait for work outside of the capture");
  CaptureSession* session = find_session(call, event.capture_id);
  if (session == nullptr) return cudaErrorCapturedEvent;
  if (stream.capture != nullptr && stream.capture != session) {
    stream.capture->is_invalid = true;
    return invalidate(call, *session, cudaErrorStreamCaptureMerge, "two captures would become one");
  }
  if (stream.kind == Stream::Kind::legacy)
    return invalidate(call, *session, cudaErrorStreamCaptureImplicit,
                      "the legacy default stream cannot join a capture");
  if (stream.capture == nullptr) {
    stream.capture = session;
    stream.capture_front.clear();
    session->streams.insert(&stream);
  }
  for (GraphNode* node : event.capture_nodes)
    if (std::ranges::find(stream.capture_front, node) == stream.capture_front.end())
      stream.capture_front.push_back(node);
  return cudaSuccess;
}

void leave_capture(Call& call, Stream& stream) {
  if (stream.capture == nullptr) return;
  CaptureSession& session = *stream.capture;
  session.is_invalid = true;
  session.streams.erase(&stream);
  stream.capture = nullptr;
  if (session.origin == &stream) end_session(call, session);
}

}  // namespace tessera::cuda_sim
