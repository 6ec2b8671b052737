#include "tensor/cuda/runtime/check.h"

#include <string_view>

#include "tensor/error.h"

namespace tessera::cuda_runtime {
namespace {

/// What can be done about an error; empty where its text says it.
const char* advice(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
      return "; the driver is older than CUDA " TESSERA_CUDA_VERSION_TEXT
             ", with which Tessera was built: update it";
    case cudaErrorNoDevice:
      return "; no card is visible to this process (nvidia-smi, CUDA_VISIBLE_DEVICES)";
    case cudaErrorNoKernelImageForDevice:
      return "; Tessera was built for the architectures " TESSERA_CUDA_ARCHITECTURES_TEXT
             ": configure with -DCMAKE_CUDA_ARCHITECTURES=...";
    case cudaErrorIllegalAddress:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure:
    case cudaErrorMisalignedAddress:
      return "; a kernel failed earlier, and the device is lost to this process: cuda:sim, or "
             "compute-sanitizer, says "
             "which one and where";
    default:
      return "";
  }
}

/// The file's path from the source tree's root on.
std::string_view in_tree(std::string_view file) {
  const size_t at = file.rfind("/tensor/");
  return at == std::string_view::npos ? file : file.substr(at + 1);
}

}  // namespace

void throw_failed(cudaError_t status, const char* call, const std::source_location& place) {
  const std::string message =
      text(call, " (", in_tree(place.file_name()), ":", place.line(), "): ", cudaGetErrorName(status), ", ",
           cudaGetErrorString(status), advice(status));
  if (status == cudaErrorMemoryAllocation) throw OutOfMemoryError(message);
  throw DeviceError(message);
}

}  // namespace tessera::cuda_runtime
