// Events: points in streams that other streams and the host wait for.
#include <cuda_runtime_api.h>

#include <memory>

#include "tools/cuda_sim/runtime/state/call.h"

using namespace tessera::cuda_sim;

namespace {

/// The simulated clock has one tick for each operation that ends: a number, and no claim about a card.
constexpr float milliseconds_per_tick = 0.001f;

cudaError_t create(const char* name, cudaEvent_t* handle, unsigned flags) {
  return api_call(name, [&](Call& call) {
    constexpr unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    if (handle == nullptr || (flags & ~known) != 0) return cudaErrorInvalidValue;
    if ((flags & cudaEventInterprocess) != 0) return cudaErrorNotSupported;
    auto event = std::make_unique<Event>();
    event->flags = flags;
    event->device = call.thread.device;
    *handle = reinterpret_cast<cudaEvent_t>(call.runtime.events.add(std::move(event)));
    return cudaSuccess;
  });
}

cudaError_t record(const char* name, cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags) {
  return api_call(name, [&](Call& call) {
    Event* event = call.event(handle);
    Stream* stream = call.stream(stream_handle);
    if (event == nullptr || stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (flags != cudaEventRecordDefault && flags != cudaEventRecordExternal) return cudaErrorInvalidValue;
    if (event->device != stream->device->index()) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_stream_for_work(call, *stream)) return error;
    if (stream->capture != nullptr) {
      if (flags == cudaEventRecordExternal) {
        capture_node(*stream, EventParameters{.handle = handle, .record = event->record, .is_wait = false});
      } else {
        capture_event(*stream, *event);
      }
      return cudaSuccess;
    }
    if (flags == cudaEventRecordExternal) return cudaErrorIllegalState;
    event->capture_id = 0;
    event->capture_nodes.clear();
    // A wait that was issued before keeps the record it saw.
    event->record = std::make_shared<Event::Record>();
    const std::shared_ptr<Event::Record> made = event->record;
    made->operation = call.runtime.issue(
        call.lock, *stream,
        make_work(call.runtime, *stream->device, EventParameters{.handle = handle, .record = made}));
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return create("cudaEventCreate", event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return create("cudaEventCreateWithFlags", event, flags);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return record("cudaEventRecord", event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return record("cudaEventRecordWithFlags", event, stream, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return api_call("cudaEventDestroy", [&](Call& call) {
    return call.runtime.events.remove(handle) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags) {
  return api_call("cudaStreamWaitEvent", [&](Call& call) {
    Event* event = call.event(handle);
    Stream* stream = call.stream(stream_handle);
    if (event == nullptr || stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (flags != cudaEventWaitDefault && flags != cudaEventWaitExternal) return cudaErrorInvalidValue;
    if (stream->capture != nullptr && stream->capture->is_invalid) return cudaErrorStreamCaptureInvalidated;
    if (flags == cudaEventWaitExternal) {
      if (stream->capture == nullptr) return cudaErrorIllegalState;
      capture_node(*stream, EventParameters{.handle = handle, .record = event->record, .is_wait = true});
      return cudaSuccess;
    }
    if (stream->capture != nullptr || event->capture_id != 0) return capture_wait(call, *stream, *event);
    if (const cudaError_t error = check_stream_for_work(call, *stream)) return error;
    // An event that was never recorded is no wait (CUDA Runtime API, cudaStreamWaitEvent).
    if (event->record->operation == 0) return cudaSuccess;
    call.runtime.issue(call.lock, *stream,
                       make_work(call.runtime, *stream->device,
                                 EventParameters{.handle = handle, .record = event->record, .is_wait = true}),
                       {event->record->operation});
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return api_call("cudaEventSynchronize", [&](Call& call) {
    const Event* event = call.event(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->capture_id != 0) return cudaErrorCapturedEvent;
    return call.runtime.wait(call.lock, call.runtime.device(event->device), event->record->operation);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return api_call("cudaEventQuery", [&](Call& call) {
    const Event* event = call.event(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->capture_id != 0) return cudaErrorCapturedEvent;
    DeviceState& device = call.runtime.device(event->device);
    const bool is_done = call.runtime.scheduler.poll(call.lock, event->record->operation);
    if (device.sticky != cudaSuccess) return device.sticky;
    return is_done ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return api_call("cudaEventElapsedTime", [&](Call& call) {
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    const Event *first = call.event(start), *second = call.event(end);
    if (first == nullptr || second == nullptr) return cudaErrorInvalidResourceHandle;
    for (const Event* event : {first, second})
      if ((event->flags & cudaEventDisableTiming) != 0 || event->record->operation == 0)
        return cudaErrorInvalidResourceHandle;
    for (const Event* event : {first, second}) {
      if (event->capture_id != 0) return cudaErrorCapturedEvent;
      if (!call.runtime.scheduler.is_done(event->record->operation)) return cudaErrorNotReady;
    }
    const auto from = static_cast<int64_t>(first->record->ended_at);
    const auto to = static_cast<int64_t>(second->record->ended_at);
    *milliseconds = static_cast<float>(to - from) * milliseconds_per_tick;
    return cudaSuccess;
  });
}

}  // extern "C"
