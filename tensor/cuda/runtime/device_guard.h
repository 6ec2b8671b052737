#pragma once  // internal

#include <string_view>

#include "tensor/device.h"

namespace tessera::cuda_runtime {

/// The number of CUDA devices; 0 where there is no driver. Loads the runtime.
int device_count();
/// Throws DeviceError, naming the number of devices, where there is none of that index, or where the kernels
/// were built for other architectures alone.
void require_device(Device device);
/// Whether a card of that compute capability (90 for 9.0) runs kernels built for CMake's list of
/// architectures: "80-real, 90": machine code runs on later cards of the same major number, PTX on all later
/// ones. CUDA Programming Guide, section 3.1.3 and 3.1.4.
bool is_built_for(int capability, std::string_view architectures);

/// Makes `device` the one that this thread's calls of the runtime go to, until the end of the scope.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_;
};

/// Facts of a device that launches depend on; asked once.
struct DeviceFacts {
  int multiprocessors = 0;
  int compute_capability = 0;          ///< 90 for 9.0
  int max_shared_bytes_per_block = 0;  ///< with opting in
  int max_threads_per_multiprocessor = 0;
  bool runs_our_kernels = false;  ///< as `is_built_for`
};
const DeviceFacts& facts_of(Device device);

}  // namespace tessera::cuda_runtime
