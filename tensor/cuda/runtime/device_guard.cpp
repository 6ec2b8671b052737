#include "tensor/cuda/runtime/device_guard.h"

#include <array>
#include <mutex>

#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/library.h"
#include "tensor/error.h"

namespace tessera::cuda_runtime {
namespace {

constexpr int max_devices = 128;
/// The device that this thread's calls go to; the runtime begins with 0.
thread_local int current_device = 0;

}  // namespace

int device_count() {
  require_loaded();
  static const int count = [] {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver) {
      cudaGetLastError();
      return 0;
    }
    check(status, "cudaGetDeviceCount");
    return devices;
  }();
  return count;
}

void require_device(Device device) {
  const int count = device_count();
  require<DeviceError>(
      count > 0, device,
      ": no CUDA device: the driver is missing or sees no card; cuda:sim is a simulated one");
  require<DeviceError>(device.index < count, device, ": expected an index from 0 to ", count - 1, ", there ",
                       count == 1 ? "is 1 CUDA device" : text("are ", count, " CUDA devices"));
}

DeviceGuard::DeviceGuard(Device device) : previous_(current_device) {
  if (device.index == previous_) return;
  check(cudaSetDevice(device.index), "cudaSetDevice");
  current_device = device.index;
}

DeviceGuard::~DeviceGuard() {
  if (current_device == previous_) return;
  cudaSetDevice(previous_);
  current_device = previous_;
}

const DeviceFacts& facts_of(Device device) {
  static std::array<DeviceFacts, max_devices> facts;
  static std::array<std::once_flag, max_devices> asked;
  DeviceFacts& answer = facts[device.index];
  std::call_once(asked[device.index], [&] {
    const auto attribute = [&](cudaDeviceAttr which) {
      int value = 0;
      check(cudaDeviceGetAttribute(&value, which, device.index), "cudaDeviceGetAttribute");
      return value;
    };
    answer = {.multiprocessors = attribute(cudaDevAttrMultiProcessorCount),
              .compute_capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                                    attribute(cudaDevAttrComputeCapabilityMinor),
              .max_shared_bytes_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin),
              .max_threads_per_multiprocessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor)};
  });
  return answer;
}

}  // namespace tessera::cuda_runtime
