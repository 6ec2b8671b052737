#include "tensor/cuda/runtime/graph.h"

#include <exception>
#include <utility>

#include "tensor/cuda/memory/device_allocator.h"
#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/late_errors.h"
#include "tensor/error.h"

namespace tessera::cuda_runtime {
namespace {

/// A recorded graph until an executable one is made of it.
class Recording {
 public:
  explicit Recording(cudaGraph_t graph) : graph_(graph) {}
  ~Recording() {
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  cudaGraph_t get() const { return graph_; }

 private:
  cudaGraph_t graph_;
};

/// The stream on which this thread records a graph; null outside a recording.
thread_local cudaStream_t recording = nullptr;

/// While it lives, this thread records on `stream`.
class RecordingScope {
 public:
  explicit RecordingScope(cudaStream_t stream) : before_(std::exchange(recording, stream)) {}
  ~RecordingScope() { recording = before_; }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  cudaStream_t before_;
};

}  // namespace

cudaStream_t recording_stream() {
  return recording;
}

void require_graph_stream(cudaStream_t stream, const char* what) {
  require<DeviceError>(recording == nullptr || stream == recording || !is_capturing(stream), what,
                       ": while a graph is recorded only its own stream has memory and checks");
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

Graph::Graph(Device device) : device_(device), stream_(device), launched_(device) {
  keep_segments_of(device_, stream_.get());
}

Graph::~Graph() {
  try {
    const DeviceGuard guard(device_);
    // Results may be read on other streams; their memory is free when the stream of the recording ends.
    if (was_launched_) wait_for_streams(device_);
  } catch (const Error&) {
    // A lost device runs nothing any more.
  }
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
}

void Graph::capture(const std::function<void()>& body) {
  const DeviceGuard guard(device_);
  // Relaxed: the allocator takes memory, and asks for ends of events, while the stream records.
  check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  const LateCapture checks(device_, stream_.get());
  std::exception_ptr error;
  try {
    const StreamScope scope(stream_);
    const RecordingScope own(stream_.get());
    body();
  } catch (...) {
    error = std::current_exception();
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream_.get(), &graph);
  const Recording recorded(graph);
  if (error != nullptr) {
    cudaGetLastError();  // an error of `body` may have ended the recording
    std::rethrow_exception(error);
  }
  check(status, "cudaStreamEndCapture");
  adopt(recorded.get());
  checks.keep();
}

void Graph::adopt(cudaGraph_t recorded) {
  size_t count = 0;
  check(cudaGraphGetNodes(recorded, nullptr, &count), "cudaGraphGetNodes");
  // Results of the former recording may be read on other streams, and their memory is used again.
  if (was_launched_) wait_for_streams(device_);
  if (executable_ != nullptr) {
    cudaGraphExecUpdateResultInfo result{};
    if (cudaGraphExecUpdate(executable_, recorded, &result) == cudaSuccess) {
      nodes_ = static_cast<int64_t>(count);
      return;
    }
    cudaGetLastError();  // another topology is no error
  }
  cudaGraphExec_t made = nullptr;
  check(cudaGraphInstantiate(&made, recorded, 0), "cudaGraphInstantiate");
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  executable_ = made;
  nodes_ = static_cast<int64_t>(count);
  ++instantiations_;
}

void Graph::launch(cudaStream_t stream) {
  require<ValueError>(is_captured(), "Graph::launch: nothing was recorded; capture first");
  const DeviceGuard guard(device_);
  const std::unique_lock lock = late_graph_launch(device_, stream_.get(), stream);
  if (was_launched_) launched_.block(stream);
  check(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
  launched_.record(stream);
  was_launched_ = true;
}

}  // namespace tessera::cuda_runtime
