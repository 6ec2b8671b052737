// Streams: made, destroyed, waited for, asked.
#include <cuda_runtime_api.h>

#include <memory>

#include "tools/cuda_sim/runtime/api/streams/host_functions.h"
#include "tools/cuda_sim/runtime/state/call.h"

using namespace tessera::cuda_sim;

namespace {

constexpr int least_priority = 0, greatest_priority = -5;

cudaError_t create(const char* name, cudaStream_t* handle, unsigned flags, int priority) {
  return api_call(name, [&](Call& call) {
    if (handle == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0)
      return cudaErrorInvalidValue;
    constexpr uint32_t default_ids = 2;  // ids 1 and 2 are the default streams'
    auto stream = std::make_unique<Stream>();
    stream->device = &call.device();
    stream->flags = flags;
    stream->is_blocking = (flags & cudaStreamNonBlocking) == 0;
    stream->priority = std::clamp(priority, greatest_priority, least_priority);
    OperationLog& log = call.runtime.log;
    stream->chain = log.new_chain("stream " + std::to_string(log.next_chain() + default_ids));
    stream->id = stream->chain + default_ids;
    *handle = reinterpret_cast<cudaStream_t>(call.runtime.streams.add(std::move(stream)));
    return cudaSuccess;
  });
}

/// Runs `body(Stream&)` for a stream that exists.
template <class Body>
cudaError_t with_stream(const char* name, cudaStream_t handle, Body body) {
  return api_call(name, [&](Call& call) {
    Stream* stream = call.stream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(call, *stream);
  });
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return create("cudaStreamCreate", stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create("cudaStreamCreateWithFlags", stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create("cudaStreamCreateWithPriority", stream, flags, priority);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api_call("cudaDeviceGetStreamPriorityRange", [&](Call&) {
    if (least != nullptr) *least = least_priority;
    if (greatest != nullptr) *greatest = greatest_priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return api_call("cudaStreamDestroy", [&](Call& call) {
    Stream* stream = call.runtime.streams.find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    // Its work still runs: the chain lives as long as the operations in it.
    leave_capture(call, *stream);
    call.runtime.log.release_chain(stream->chain);
    call.runtime.streams.remove(handle);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return with_stream("cudaStreamSynchronize", handle, [](Call& call, Stream& stream) {
    if (const cudaError_t error = check_stream_for_host(call, stream)) return error;
    return call.runtime.wait_for_stream(call.lock, stream);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return with_stream("cudaStreamQuery", handle, [](Call& call, Stream& stream) {
    if (const cudaError_t error = check_stream_for_host(call, stream)) return error;
    bool is_done = true;
    if (stream.kind == Stream::Kind::legacy)
      for (const Operation operation : call.runtime.implicit_dependencies(stream))
        is_done &= call.runtime.scheduler.poll(call.lock, operation);
    is_done &= call.runtime.scheduler.poll(call.lock, call.runtime.log.last_of(stream.chain));
    if (stream.device->sticky != cudaSuccess) return stream.device->sticky;
    return is_done ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api_call("cudaDeviceSynchronize", [](Call& call) {
    if (const cudaError_t error = check_device_for_host(call)) return error;
    return call.runtime.wait_for_device(call.lock, call.device());
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return with_stream("cudaStreamGetFlags", handle, [&](Call&, Stream& stream) {
    if (flags == nullptr) return cudaErrorInvalidValue;
    *flags = stream.flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return with_stream("cudaStreamGetPriority", handle, [&](Call&, Stream& stream) {
    if (priority == nullptr) return cudaErrorInvalidValue;
    *priority = stream.priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return with_stream("cudaStreamGetId", handle, [&](Call&, Stream& stream) {
    if (id == nullptr) return cudaErrorInvalidValue;
    *id = stream.kind == Stream::Kind::legacy ? 1 : stream.kind == Stream::Kind::per_thread ? 2 : stream.id;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return with_stream("cudaStreamGetDevice", handle, [&](Call&, Stream& stream) {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = stream.device->index();
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return with_stream("cudaLaunchHostFunc", handle, [&](Call& call, Stream& stream) {
    if (function == nullptr) return cudaErrorInvalidValue;
    return issue_host_function(call, stream, {.function = function, .data = data});
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t callback, void* data,
                                  unsigned flags) {
  return with_stream("cudaStreamAddCallback", handle, [&](Call& call, Stream& stream) {
    if (callback == nullptr || flags != 0) return cudaErrorInvalidValue;
    if (stream.capture != nullptr) {
      stream.capture->is_invalid = true;
      call.report(Check::capture, "a callback cannot be captured; use cudaLaunchHostFunc");
      return cudaErrorStreamCaptureUnsupported;
    }
    struct Callback {
      cudaStream_t stream;
      cudaStreamCallback_t function;
      void* data;
    };
    auto* owned = new Callback{handle, callback, data};
    return issue_host_function(call, stream,
                               {.function =
                                    [](void* pointer) {
                                      const std::unique_ptr<Callback> one(static_cast<Callback*>(pointer));
                                      one->function(one->stream, cudaSuccess, one->data);
                                    },
                                .data = owned});
  });
}

}  // extern "C"
