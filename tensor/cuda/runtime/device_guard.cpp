#include "tensor/cuda/runtime/device_guard.h"

#include <array>
#include <charconv>
#include <mutex>

#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/current_device.h"
#include "tensor/cuda/runtime/library.h"
#include "tensor/error.h"

namespace tessera::cuda_runtime {
namespace {

constexpr int max_devices = 128;
/// The device that this thread's calls go to; the runtime begins with 0.
thread_local int current_device = 0;

/// What the runtime said when it was asked for its devices.
struct Devices {
  int count = 0;
  cudaError_t status = cudaSuccess;
};

const Devices& devices() {
  require_loaded();
  static const Devices found = [] {
    Devices answer;
    answer.status = cudaGetDeviceCount(&answer.count);
    if (answer.status == cudaSuccess) return answer;
    cudaGetLastError();
    if (answer.status != cudaErrorNoDevice && answer.status != cudaErrorInsufficientDriver)
      check(answer.status, "cudaGetDeviceCount");
    answer.count = 0;
    return answer;
  }();
  return found;
}

/// "12.4" of 12040.
std::string version_text(int version) {
  return text(version / 1000, ".", version % 1000 / 10);
}

/// Why there is no device.
std::string what_is_missing() {
  if (devices().status != cudaErrorInsufficientDriver)
    return "the driver sees no card (nvidia-smi, CUDA_VISIBLE_DEVICES)";
  int version = 0;
  cudaDriverGetVersion(&version);
  cudaGetLastError();
  if (version == 0) return "there is no NVIDIA driver on this machine (libcuda.so.1)";
  return text("the driver is for CUDA ", version_text(version),
              ", older than CUDA " TESSERA_CUDA_VERSION_TEXT ", with which Tessera was built: update it");
}

}  // namespace

int device_count() {
  return devices().count;
}

void require_device(Device device) {
  const int count = device_count();
  if (count == 0)
    throw DeviceError(text(device, ": no CUDA device: ", what_is_missing(),
                           is_simulated() ? "" : "; cuda:sim is a simulated one"));
  require<DeviceError>(device.index < count, device, ": expected an index from 0 to ", count - 1, ", there ",
                       count == 1 ? "is 1 CUDA device" : text("are ", count, " CUDA devices"));
  const DeviceFacts& facts = facts_of(device);
  require<DeviceError>(facts.runs_our_kernels, device, ": its architecture is ",
                       facts.compute_capability / 10, ".", facts.compute_capability % 10,
                       ", and Tessera was built for " TESSERA_CUDA_ARCHITECTURES_TEXT
                       ": configure with -DCMAKE_CUDA_ARCHITECTURES=",
                       facts.compute_capability);
}

bool is_built_for(int capability, std::string_view architectures) {
  while (!architectures.empty()) {
    const size_t comma = architectures.find(", ");
    const std::string_view one = architectures.substr(0, comma);
    architectures.remove_prefix(comma == std::string_view::npos ? architectures.size() : comma + 2);
    int built = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), built);
    if (error != std::errc()) return true;  // "all", "native"
    const std::string_view kind(end, static_cast<size_t>(one.data() + one.size() - end));
    const bool has_ptx = kind != "-real" && !kind.starts_with("a") && !kind.starts_with("f");
    const bool has_machine_code = kind == "" || kind == "-real";
    if (has_ptx && capability >= built) return true;
    if (has_machine_code && capability / 10 == built / 10 && capability >= built) return true;
    if (!has_ptx && !has_machine_code && capability == built) return true;  // of one chip: 90a
  }
  return false;
}

void set_current_device(Device device) {
  check(cudaSetDevice(device.index), "cudaSetDevice");
  current_device = device.index;
}

DeviceGuard::DeviceGuard(Device device) : previous_(current_device) {
  if (device.index != previous_) set_current_device(device);
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
    answer.runs_our_kernels = is_built_for(answer.compute_capability, TESSERA_CUDA_ARCHITECTURES_TEXT);
  });
  return answer;
}

}  // namespace tessera::cuda_runtime
