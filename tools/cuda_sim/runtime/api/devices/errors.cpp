// Names and texts of errors, and the last error of a thread.
#include <cuda_runtime_api.h>

#include <array>

#include "tools/cuda_sim/runtime/state/call.h"

using namespace tessera::cuda_sim;

namespace {

struct ErrorText {
  int code;
  const char* name;
  const char* text;
};

/// As libcudart 13.0 gives them.
constexpr ErrorText texts[] = {
#include "tools/cuda_sim/runtime/api/devices/error_texts.inc"
};

const ErrorText* find(cudaError_t error) {
  for (const ErrorText& text : texts)
    if (text.code == static_cast<int>(error)) return &text;
  return nullptr;
}

cudaError_t sticky_error() {
  ThreadState& thread = this_thread();
  Runtime& runtime = Runtime::instance();
  if (thread.device >= runtime.device_count()) return cudaSuccess;
  const DeviceState* device = runtime.opened(thread.device);
  return device == nullptr ? cudaSuccess : device->sticky;
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* text = find(error);
  return text == nullptr ? "unrecognized error code" : text->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* text = find(error);
  return text == nullptr ? "unrecognized error code" : text->text;
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t sticky = sticky_error();
  return sticky != cudaSuccess ? sticky : this_thread().last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  this_thread().last_error = cudaSuccess;
  return error;
}

}  // extern "C"
