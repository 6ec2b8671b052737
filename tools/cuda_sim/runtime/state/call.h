// What every call of the runtime does before and after its own work.
#pragma once

#include <cuda_runtime_api.h>

#include <exception>
#include <map>
#include <memory>
#include <new>
#include <vector>

#include "tools/cuda_sim/runtime/state/runtime.h"

namespace tessera::cuda_sim {

/// What belongs to a host thread.
struct ThreadState {
  ThreadState() = default;
  ~ThreadState();
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

  int device = 0;
  cudaError_t last_error = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  std::map<int, std::unique_ptr<Stream>> per_thread_streams;  ///< by device
  struct LaunchConfiguration {
    dim3 grid, block;
    size_t shared = 0;
    cudaStream_t stream = nullptr;
  };
  std::vector<LaunchConfiguration> configurations;  ///< of <<<>>> of which the kernel call is on its way
};
ThreadState& this_thread();

/// Where a call may stand.
enum class CallKind : uint8_t {
  usual,
  unsafe_in_capture,  ///< refused while a stream captures (cudaStreamCaptureMode)
  needs_no_device,    ///< works on a lost device too
};

class Call {
 public:
  Call(const char* call_name, Scheduler::Lock& held) : name(call_name), lock(held) {}

  const char* name;
  Scheduler::Lock& lock;
  Runtime& runtime = Runtime::instance();
  ThreadState& thread = this_thread();

  DeviceState& device() { return runtime.device(thread.device); }
  /// A stream by its handle: 0 and cudaStreamLegacy, cudaStreamPerThread, a created one. Null: no such
  /// stream.
  Stream* stream(cudaStream_t handle);
  Event* event(cudaEvent_t handle) { return runtime.events.find(handle); }
  void report(Check check, const std::string& message) {
    runtime.findings.add(check, std::string(name) + ": " + message, Site{});
  }
};

/// The error with which a call ends before it has begun; cudaSuccess: it may go on.
cudaError_t refuse_call(Call& call, CallKind kind);

/// Runs `body(Call&)` with the runtime's lock; keeps its error for cudaGetLastError.
template <class Body>
cudaError_t api_call(const char* name, CallKind kind, Body body) {
  ThreadState& thread = this_thread();
  cudaError_t result = cudaSuccess;
  if (is_inside_host_function()) {
    Runtime::instance().findings.add(
        Check::deadlock, std::string(name) + " in a host function of a stream: it may never return", Site{});
    result = cudaErrorNotPermitted;
  } else {
    Scheduler::Lock lock(Runtime::instance().mutex);
    Call call(name, lock);
    try {
      result = refuse_call(call, kind);
      if (result == cudaSuccess) result = body(call);
    } catch (const std::bad_alloc&) {
      result = cudaErrorMemoryAllocation;
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "[cuda_sim] %s: %s\n", name, failure.what());
      result = cudaErrorUnknown;
    }
  }
  if (result != cudaSuccess) thread.last_error = result;
  return result;
}
template <class Body>
cudaError_t api_call(const char* name, Body body) {
  return api_call(name, CallKind::usual, body);
}

}  // namespace tessera::cuda_sim
