// Handles, versions and error texts.
#include <algorithm>
#include <cstring>

#include "tools/cuda_sim/libraries/cudnn/api/failure.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace tessera::cuda_sim::cudnn {

std::string& last_error() {
  static thread_local std::string message;
  return message;
}

}  // namespace tessera::cuda_sim::cudnn

using tessera::cuda_sim::cudnn::guarded;
using tessera::cuda_sim::cudnn::last_error;
using tessera::cuda_sim::cudnn::require;

extern "C" {

size_t cudnnGetVersion() {
  return CUDNN_VERSION;
}
size_t cudnnGetMaxDeviceVersion() {
  return CUDNN_MAX_DEVICE_VERSION;
}
size_t cudnnGetCudartVersion() {
  return CUDART_VERSION;
}

cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  return guarded("cudnnGetProperty", [&] {
    require(value != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for the value");
    require(type == MAJOR_VERSION || type == MINOR_VERSION || type == PATCH_LEVEL, CUDNN_STATUS_BAD_PARAM,
            "unknown property ", static_cast<int>(type));
    *value = type == MAJOR_VERSION ? CUDNN_MAJOR : type == MINOR_VERSION ? CUDNN_MINOR : CUDNN_PATCHLEVEL;
  });
}

cudnnStatus_t cudnnGraphVersionCheck() {
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return guarded("cudnnCreate", [&] {
    require(handle != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for the handle");
    int devices = 0;
    require(cudaGetDeviceCount(&devices) == cudaSuccess, CUDNN_STATUS_NOT_INITIALIZED, "there is no device");
    *handle = new cudnnContext;
  });
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return guarded("cudnnSetStream", [&] {
    require(handle != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no handle");
    handle->stream = stream;
  });
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return guarded("cudnnGetStream", [&] {
    require(handle != nullptr && stream != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
            "no handle, or no place for the stream");
    *stream = handle->stream;
  });
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
#define TESSERA_STATUS(name) \
  case name:                 \
    return #name;
  switch (static_cast<int>(status)) {
    TESSERA_STATUS(CUDNN_STATUS_SUCCESS)
    TESSERA_STATUS(CUDNN_STATUS_NOT_INITIALIZED)
    TESSERA_STATUS(CUDNN_STATUS_BAD_PARAM)
    TESSERA_STATUS(CUDNN_STATUS_BAD_PARAM_NULL_POINTER)
    TESSERA_STATUS(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER)
    TESSERA_STATUS(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED)
    TESSERA_STATUS(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND)
    TESSERA_STATUS(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT)
    TESSERA_STATUS(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH)
    TESSERA_STATUS(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH)
    TESSERA_STATUS(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES)
    TESSERA_STATUS(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE)
    TESSERA_STATUS(CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH)
    TESSERA_STATUS(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE)
    TESSERA_STATUS(CUDNN_STATUS_NOT_SUPPORTED)
    TESSERA_STATUS(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN)
    TESSERA_STATUS(CUDNN_STATUS_NOT_SUPPORTED_SHAPE)
    TESSERA_STATUS(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE)
    TESSERA_STATUS(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT)
    TESSERA_STATUS(CUDNN_STATUS_INTERNAL_ERROR)
    TESSERA_STATUS(CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE)
    TESSERA_STATUS(CUDNN_STATUS_EXECUTION_FAILED)
    TESSERA_STATUS(CUDNN_STATUS_EXECUTION_FAILED_CUDART)
    default:
      return "CUDNN_UNKNOWN_STATUS";
  }
#undef TESSERA_STATUS
}

void cudnnGetLastErrorString(char* message, size_t max_size) {
  if (message == nullptr || max_size == 0) return;
  const std::string& last = last_error();
  const size_t length = std::min(last.size(), max_size - 1);
  std::memcpy(message, last.data(), length);
  message[length] = '\0';
  last_error().clear();
}

}  // extern "C"
