// The CUDA backend of a build without it.
#ifndef TESSERA_WITH_CUDA

#include "tensor/cuda/backend.h"
#include "tensor/error.h"

namespace tessera::cuda_backend {
namespace {

[[noreturn]] void throw_not_built(const char* what) {
  throw NotBuiltError(
      text(what, ": this build has no CUDA backend; use cpu, or configure with the cuda preset"));
}

}  // namespace

int device_count() {
  return 0;
}
void require_device(Device device) {
  throw_not_built(to_string(device).c_str());
}
void use_simulated_card() {
  throw_not_built("cuda:sim");
}
bool is_simulated() {
  return false;
}
void* allocate(Device device, int64_t) {
  throw_not_built(to_string(device).c_str());
}
void free(Device, void*) noexcept {}
void copy(const Tensor&, const Tensor&, bool) {
  throw_not_built("copy");
}
std::shared_ptr<MemorySource> pinned_memory() {
  throw_not_built("pinned memory");
}
bool is_pinned(const Tensor&) {
  return false;
}
void synchronize(Device device) {
  throw_not_built(to_string(device).c_str());
}

}  // namespace tessera::cuda_backend

#endif
