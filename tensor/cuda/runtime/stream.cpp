#include "tensor/cuda/runtime/stream.h"

#include <array>
#include <cstdlib>
#include <mutex>
#include <set>
#include <vector>

#include "tensor/cuda/memory/device_allocator.h"
#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/graph.h"
#include "tensor/cuda/runtime/late_errors.h"

namespace tessera::cuda_runtime {
namespace {

constexpr int max_devices = 128;
/// Of the innermost StreamScope by device; null outside every one.
thread_local std::array<cudaStream_t, max_devices> scoped{};

std::array<cudaStream_t, max_devices> streams{};

/// The streams of a device that live. Never destroyed: streams may be, after main.
struct LiveStreams {
  std::mutex mutex;
  std::set<cudaStream_t> all;
};
LiveStreams& live_streams(Device device) {
  static auto* const lists = new std::array<LiveStreams, max_devices>;
  return (*lists)[static_cast<size_t>(device.index)];
}
void add_live(Device device, cudaStream_t stream) {
  LiveStreams& live = live_streams(device);
  const std::lock_guard lock(live.mutex);
  live.all.insert(stream);
}

void destroy_at_exit() {
  for (const cudaStream_t stream : streams)
    if (stream != nullptr) cudaStreamDestroy(stream);
}

/// The stream that a device's operations share by default. It lives until the process ends.
cudaStream_t shared_stream(Device device) {
  static std::array<std::once_flag, max_devices> made;
  std::call_once(made[device.index], [&] {
    static const int registered = std::atexit(&destroy_at_exit);
    static_cast<void>(registered);
    const DeviceGuard guard(device);
    check(cudaStreamCreateWithFlags(&streams[device.index], cudaStreamNonBlocking),
          "cudaStreamCreateWithFlags");
    add_live(device, streams[device.index]);
  });
  return streams[device.index];
}

}  // namespace

Event::Event(Device device, bool with_time) : device_(device) {
  const DeviceGuard guard(device);
  check(cudaEventCreateWithFlags(&event_, with_time ? cudaEventDefault : cudaEventDisableTiming),
        "cudaEventCreateWithFlags");
}
Event::~Event() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}
void Event::record(cudaStream_t stream) {
  const DeviceGuard guard(device_);
  check(cudaEventRecord(event_, stream), "cudaEventRecord");
}
void Event::block(cudaStream_t stream) const {
  check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
}
bool Event::is_done() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // not an error: takes it out of the thread's last one
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}
void Event::synchronize() const {
  check(cudaEventSynchronize(event_), "cudaEventSynchronize");
}
float Event::milliseconds_since(const Event& earlier) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "cudaEventElapsedTime");
  return milliseconds;
}

Stream::Stream(Device device) : device_(device) {
  const DeviceGuard guard(device);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  add_live(device, stream_);
}
Stream::~Stream() {
  if (stream_ == nullptr) return;
  {
    LiveStreams& live = live_streams(device_);
    const std::lock_guard lock(live.mutex);
    live.all.erase(stream_);
  }
  // What waits for the stream's end, and for errors of its kernels, then needs no stream; its blocks may go
  // to a stream that gets the same handle.
  cudaStreamSynchronize(stream_);
  forget_stream(stream_);
  forget_late_stream(device_, stream_);
  cudaStreamDestroy(stream_);
}
void Stream::synchronize() const {
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}
void Stream::wait(cudaStream_t other) const {
  Event event(device_);
  event.record(other);
  event.block(stream_);
}

cudaStream_t current_stream(Device device) {
  const cudaStream_t inner = scoped[device.index];
  return inner != nullptr ? inner : shared_stream(device);
}

StreamScope::StreamScope(const Stream& stream)
    : device_(stream.device()), previous_(std::exchange(scoped[stream.device().index], stream.get())) {}
StreamScope::~StreamScope() {
  scoped[device_.index] = previous_;
}

void wait_for_streams(Device device) {
  std::vector<Event> ends;
  {
    LiveStreams& live = live_streams(device);
    const std::lock_guard lock(live.mutex);
    for (const cudaStream_t stream : live.all)
      if (!is_capturing(stream)) ends.emplace_back(device).record(stream);
  }
  for (const Event& end : ends) end.synchronize();
}

void synchronize_current(Device device) {
  check(cudaStreamSynchronize(current_stream(device)), "cudaStreamSynchronize");
}

}  // namespace tessera::cuda_runtime
