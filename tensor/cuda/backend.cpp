#include "tensor/cuda/backend.h"

#include "tensor/cuda/memory/device_allocator.h"
#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/late_errors.h"
#include "tensor/cuda/runtime/library.h"
#include "tensor/cuda/runtime/stream.h"

namespace tessera::cuda_backend {

using namespace cuda_runtime;

int device_count() {
  return cuda_runtime::device_count();
}

void require_device(Device device) {
  cuda_runtime::require_device(device);
}

void use_simulated_card() {
  load(Library::simulated);
}

bool is_simulated() {
  return cuda_runtime::is_simulated();
}

void* allocate(Device device, int64_t nbytes) {
  cuda_runtime::require_device(device);
  return device_allocate(device, nbytes, current_stream(device));
}

void free(Device device, void* block) noexcept {
  device_free(device, block);
}

void synchronize(Device device) {
  cuda_runtime::require_device(device);
  synchronize_current(device);
  throw_late_errors(device);
}

}  // namespace tessera::cuda_backend
