#pragma once  // internal

#include <cuda_runtime_api.h>

#include <utility>

#include "tensor/device.h"

namespace tessera::cuda_runtime {

/// A marker in a stream's work. Movable.
class Event {
 public:
  /// `with_time`: for `milliseconds_since`; slower to record.
  explicit Event(Device device, bool with_time = false);
  ~Event();
  Event(Event&& other) noexcept : device_(other.device_), event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(event_, other.event_);
    return *this;
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Marks what `stream` has been given so far.
  void record(cudaStream_t stream);
  /// Work given to `stream` from now on waits for the marked work.
  void block(cudaStream_t stream) const;
  /// Whether the marked work has ended. Throws what a kernel failed with.
  bool is_done() const;
  /// Waits for it. Throws what a kernel failed with.
  void synchronize() const;
  /// Of the marks of two events with time.
  float milliseconds_since(const Event& earlier) const;

 private:
  Device device_;
  cudaEvent_t event_ = nullptr;
};

/// A queue of work on a device, which runs in order. It never waits for the legacy default stream. Movable.
class Stream {
 public:
  explicit Stream(Device device);
  ~Stream();
  Stream(Stream&& other) noexcept : device_(other.device_), stream_(std::exchange(other.stream_, nullptr)) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device device() const { return device_; }
  cudaStream_t get() const { return stream_; }
  /// Waits until all work given so far has ended. Throws what a kernel failed with.
  void synchronize() const;
  /// Work given from now on waits for the work that `other` has been given so far.
  void wait(cudaStream_t other) const;

 private:
  Device device_;
  cudaStream_t stream_ = nullptr;
};

/// The stream to which this thread's operations on `device` go: that of the innermost StreamScope, else the
/// device's own one, which all threads share.
cudaStream_t current_stream(Device device);

/// Operations of this thread on the stream's device go to `stream` until the end of the scope.
class StreamScope {
 public:
  explicit StreamScope(const Stream& stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Device device_;
  cudaStream_t previous_;
};

/// Waits until the work that all streams of the device have been given so far has ended, but for those that
/// record a graph: the runtime allows no wait for a whole device while another thread records one.
void wait_for_streams(Device device);

/// Waits until all work of this thread's current stream has ended.
void synchronize_current(Device device);

}  // namespace tessera::cuda_runtime
