#pragma once

#include <cstdint>
#include <string>

namespace tessera {

/// Where a tensor's values are. `meta` has none: operations on it stop after the shape.
enum class DeviceKind : uint8_t { cpu, cuda, meta };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int8_t index = 0;

  bool is_cpu() const { return kind == DeviceKind::cpu; }
  bool is_cuda() const { return kind == DeviceKind::cuda; }
  bool is_meta() const { return kind == DeviceKind::meta; }
  friend bool operator==(Device, Device) = default;
};

inline Device cpu() {
  return {DeviceKind::cpu, 0};
}
inline Device meta() {
  return {DeviceKind::meta, 0};
}
/// The CUDA device of that index. Throws NotBuiltError where this build has no CUDA backend, ValueError for a
/// negative index.
Device cuda(int index = 0);

/// Whether this build contains the CUDA backend.
bool cuda_is_built();

/// "cpu", "meta", "cuda:1".
std::string to_string(Device device);
/// Reads "cpu", "meta", "cuda" or "cuda:1". Throws ValueError for anything else, NotBuiltError as `cuda`
/// does.
Device parse_device(const std::string& name);

}  // namespace tessera
