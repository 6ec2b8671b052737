#include "tensor/device.h"

#include "tensor/cuda/backend.h"
#include "tensor/error.h"

namespace tessera {

bool cuda_is_built() {
#ifdef TESSERA_WITH_CUDA
  return true;
#else
  return false;
#endif
}

int cuda_device_count() {
  return cuda_backend::device_count();
}

void synchronize(Device device) {
  if (device.is_cuda()) cuda_backend::synchronize(device);
}

Device cuda(int index) {
  require<ValueError>(index >= 0 && index < 128, "cuda device index ", index, ": expected 0 to 127");
  require<NotBuiltError>(cuda_is_built(), "device cuda:", index,
                         ": this build has no CUDA backend; use cpu, or configure with the cuda preset");
  return {DeviceKind::cuda, static_cast<int8_t>(index)};
}

std::string to_string(Device device) {
  if (device.is_cpu()) return "cpu";
  if (device.is_meta()) return "meta";
  if (device.is_batched()) return "cpu, batched by " + std::to_string(device.samples);
  return "cuda:" + std::to_string(device.index);
}

Device parse_device(const std::string& name) {
  if (name == "cpu") return cpu();
  if (name == "meta") return meta();
  if (name == "cuda") return cuda(0);
  if (name == "cuda:sim") {
    cuda_backend::use_simulated_card();
    return cuda(0);
  }
  if (name.starts_with("cuda:") && name.size() > 5 && name.size() < 9 &&
      name.find_first_not_of("0123456789", 5) == std::string::npos)
    return cuda(std::stoi(name.substr(5)));
  throw ValueError(text("unknown device '", name, "': expected cpu, cuda, cuda:N, cuda:sim or meta"));
}

}  // namespace tessera
