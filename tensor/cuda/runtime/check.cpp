#include "tensor/cuda/runtime/check.h"

#include <string>
#include <string_view>

#include "tensor/error.h"

namespace tessera::cuda_runtime {
namespace {

/// "8.0" of the card that this thread uses; empty where it cannot be asked.
std::string capability_of_card() {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
    return "";
  return text(major, ".", minor);
}

/// What can be done about an error; empty where its text says it.
std::string advice(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
      return "; the driver is older than CUDA " TESSERA_CUDA_VERSION_TEXT
             ", with which Tessera was built: update it";
    case cudaErrorNoDevice:
      return "; no card is visible to this process (nvidia-smi, CUDA_VISIBLE_DEVICES)";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorInvalidKernelImage:
      return text("; this card's architecture is ", capability_of_card(),
                  ", Tessera was built for " TESSERA_CUDA_ARCHITECTURES_TEXT
                  ": configure with -DCMAKE_CUDA_ARCHITECTURES=...");
    case cudaErrorIllegalAddress:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
      return "; a kernel failed earlier, and the device is lost to this process (tensors on the CPU are "
             "not): "
             "cuda:sim, or compute-sanitizer, says which one and where";
    case cudaErrorInvalidResourceHandle:
      return "; the stream or event was destroyed, or belongs to another device";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureImplicit:
      return "; while a stream captures a graph the host cannot wait for the device: no item(), no copy to "
             "the "
             "CPU, no result whose shape depends on values";
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
  cudaGetLastError();  // else the next launch would report it again; one that loses the device stays
  const std::string message =
      text(call, " (", in_tree(place.file_name()), ":", place.line(), "): ", cudaGetErrorName(status), ", ",
           cudaGetErrorString(status), advice(status));
  if (status == cudaErrorMemoryAllocation) throw OutOfMemoryError(message);
  throw DeviceError(message);
}

}  // namespace tessera::cuda_runtime
