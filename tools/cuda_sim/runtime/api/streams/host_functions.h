// Functions of the program as operations of a stream.
#pragma once

#include "tools/cuda_sim/runtime/graph/node_parameters.h"
#include "tools/cuda_sim/runtime/state/call.h"

namespace tessera::cuda_sim {

inline cudaError_t issue_host_function(Call& call, Stream& stream, HostParameters host) {
  if (const cudaError_t error = check_stream_for_work(call, stream)) return error;
  if (stream.capture != nullptr) {
    capture_node(stream, host);
    return cudaSuccess;
  }
  call.runtime.issue(call.lock, stream, make_work(call.runtime, *stream.device, host));
  return cudaSuccess;
}

}  // namespace tessera::cuda_sim
