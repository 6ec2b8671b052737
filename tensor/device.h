#pragma once

#include <bit>
#include <cstdint>
#include <string>

namespace tessera {

/// Where a tensor's values are. `meta` has none: operations on it stop after the shape. `batched` is the CPU
/// inside a vmap: a tensor has the shape of one sample, and values for every sample
/// (tensor/batched/README.md).
enum class DeviceKind : uint8_t { cpu, cuda, meta, batched };  // those with one address per element first

/// A device by its kind and number. The default is the CPU.
struct Device {
  DeviceKind kind = DeviceKind::cpu;  ///< where the values are, or `meta` for none
  int8_t index = 0;                   ///< the number of a CUDA device, 0 to 127; 0 for the other kinds
  uint16_t samples = 0;               ///< of `batched`: the number of samples; 0 for the other kinds

  /// Whether the device is of that kind, whatever its index.
  /// @{
  bool is_cpu() const { return kind == DeviceKind::cpu; }
  bool is_cuda() const { return kind == DeviceKind::cuda; }
  bool is_meta() const { return kind == DeviceKind::meta; }
  bool is_batched() const { return kind == DeviceKind::batched; }
  /// @}
  /// Same kind, index and samples.
  friend bool operator==(Device a, Device b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  }
};

/// The CPU: where tensors are unless another device is given.
inline Device cpu() {
  return {DeviceKind::cpu, 0};
}
/// The device without values: a tensor on it has a shape and a dtype, and takes no memory.
inline Device meta() {
  return {DeviceKind::meta, 0};
}
/// The CUDA device of that index. Throws NotBuiltError where this build has no CUDA backend, ValueError for
/// an index outside 0 to 127.
Device cuda(int index = 0);

/// Whether this build contains the CUDA backend.
bool cuda_is_built();
/// The number of CUDA devices that this process may use: 0 in a build without CUDA, and where there is no
/// driver or no card. Throws DeviceError where there is no CUDA runtime.
int cuda_device_count();
/// Waits until all work given to the device so far (to this thread's stream) has ended; does nothing for the
/// other kinds. Throws DeviceError for what a kernel failed with, NotBuiltError.
void synchronize(Device device);

/// "cpu", "meta", "cuda:1".
std::string to_string(Device device);
/// Reads "cpu", "meta", "cuda" or "cuda:1"; "cuda:sim" makes the process's CUDA devices simulated ones
/// (tools/cuda_sim) and is cuda:0. Throws ValueError for anything else, NotBuiltError as `cuda` does,
/// DeviceError where the simulated card cannot be had.
Device parse_device(const std::string& name);

}  // namespace tessera
