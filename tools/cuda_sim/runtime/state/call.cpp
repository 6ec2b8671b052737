#include "tools/cuda_sim/runtime/state/call.h"

#include <string>

namespace tessera::cuda_sim {

ThreadState& this_thread() {
  thread_local ThreadState state;
  return state;
}

ThreadState::~ThreadState() {
  if (per_thread_streams.empty()) return;
  Runtime& runtime = Runtime::instance();
  Scheduler::Lock lock(runtime.mutex);
  for (const auto& [index, stream] : per_thread_streams) {
    runtime.remove_per_thread_stream(stream.get());
    runtime.log.release_chain(stream->chain);
  }
}

Stream* Call::stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return &device().legacy;
  if (handle == cudaStreamPerThread) {
    std::unique_ptr<Stream>& stream = thread.per_thread_streams[thread.device];
    if (!stream) {
      stream = std::make_unique<Stream>();
      stream->device = &device();
      stream->kind = Stream::Kind::per_thread;
      stream->chain = runtime.log.new_chain("a thread's default stream");
      runtime.add_per_thread_stream(stream.get());
    }
    return stream.get();
  }
  return runtime.streams.find(handle);
}

cudaError_t refuse_call(Call& call, CallKind kind) {
  if (!call.runtime.settings_error.empty()) return cudaErrorInitializationError;
  if (!call.runtime.driver_is_sufficient()) return cudaErrorInsufficientDriver;
  if (call.runtime.device_count() == 0) return cudaErrorNoDevice;
  if (kind == CallKind::needs_no_device) return cudaSuccess;
  if (const DeviceState* device = call.runtime.opened(call.thread.device);
      device != nullptr && device->sticky != cudaSuccess)
    return device->sticky;
  if (kind == CallKind::unsafe_in_capture && invalidate_captures_by_unsafe_call(call)) {
    call.report(Check::capture, "not possible while a stream captures; the capture is lost");
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

}  // namespace tessera::cuda_sim
