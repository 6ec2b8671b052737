#pragma once  // internal

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

#include "tensor/cuda/runtime/stream.h"
#include "tensor/device.h"

namespace tessera::cuda_runtime {

/// Work of a device that is recorded once and started with one call, however many kernels it has (CUDA
/// Programming Guide, "CUDA Graphs").
///
///     Graph graph(device);
///     Tensor y;
///     graph.capture([&] { y = ops::gelu(ops::matmul(x, w)); });  // nothing runs
///     graph.launch(current_stream(device));                      // reads x and w, writes y
///
/// Each launch uses the same addresses and the same numbers of the host: new values are written into the
/// tensors that `body` read; random numbers repeat. So what `body` allocates comes from memory that this
/// graph alone uses while it lives, and tensors from outside must live as long. Not thread-safe.
class Graph {
 public:
  explicit Graph(Device device);
  /// Waits until the launches have ended. Tensors that `body` made stay valid.
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Records what `body` gives to this thread's current stream of the device, in place of what was recorded
  /// before. A recording with the same nodes in the same order updates the executable graph; others make a
  /// new one. Throws what `body` throws, and DeviceError where `body` waits for the device (`item`, a copy to
  /// the CPU) or copies from the CPU; the former recording then stays. Waits for the launches so far.
  /// Work that `body` gives to further streams is recorded where they wait for this one and it for them; it
  /// may not allocate, nor check values late: that is an error.
  void capture(const std::function<void()>& body);
  /// Gives the recorded work to `stream`; it begins after the last launch has ended. Errors of late checks
  /// (late_errors.h) come as for other work. Throws ValueError where nothing was recorded.
  void launch(cudaStream_t stream);

  bool is_captured() const { return executable_ != nullptr; }
  /// Kernels, copies and fills of the recording.
  int64_t nodes() const { return nodes_; }
  /// Executable graphs made so far; updates make none.
  int64_t instantiations() const { return instantiations_; }

 private:
  void adopt(cudaGraph_t recorded);

  Device device_;
  Stream stream_;  ///< records, and owns the graph's memory
  cudaGraphExec_t executable_ = nullptr;
  int64_t nodes_ = 0, instantiations_ = 0;
  Event launched_;  ///< the end of the last launch
  bool was_launched_ = false;
};

/// Whether the stream records a graph at present.
bool is_capturing(cudaStream_t stream);
/// The own stream of the graph that this thread records; null outside a recording.
cudaStream_t recording_stream();
/// Throws DeviceError where this thread records a graph and `stream` is a further one of the recording: what
/// `what` takes from it would not be the graph's own.
void require_graph_stream(cudaStream_t stream, const char* what);

}  // namespace tessera::cuda_runtime
