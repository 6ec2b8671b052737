#include "tensor/cuda/backend.h"

#include "tensor/cuda/memory/device_allocator.h"
#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/late_errors.h"
#include "tensor/cuda/runtime/library.h"
#include "tensor/cuda/runtime/stream.h"
#include "tensor/tensor.h"

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

namespace {

/// The work of `stream` on `device` that is needed by another device's stream.
void wait_for(Device device, cudaStream_t stream, Device waiting, cudaStream_t waiting_stream) {
  const DeviceGuard guard(waiting);
  Event event(device);
  event.record(stream);
  event.block(waiting_stream);
}

}  // namespace

void copy(const Tensor& source, const Tensor& target) {
  if (target.numel() == 0) return;
  const auto bytes = static_cast<size_t>(target.nbytes());
  const Device from = source.device(), to = target.device();
  if (from.is_cuda() && to.is_cuda()) {
    const cudaStream_t stream = current_stream(to);
    wait_for(from, current_stream(from), to, stream);
    use_on_stream(from, source.raw_data(), stream);
    const DeviceGuard guard(to);
    return check(
        cudaMemcpyPeerAsync(target.raw_data(), to.index, source.raw_data(), from.index, bytes, stream),
        "cudaMemcpyPeerAsync");
  }
  const Device device = to.is_cuda() ? to : from;
  const DeviceGuard guard(device);
  const cudaStream_t stream = current_stream(device);
  check(cudaMemcpyAsync(target.raw_data(), source.raw_data(), bytes,
                        to.is_cuda() ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
  // The caller may read the target, or change the source, when this returns.
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  if (from.is_cuda()) throw_late_errors(device);
}

void synchronize(Device device) {
  cuda_runtime::require_device(device);
  synchronize_current(device);
  throw_late_errors(device);
}

}  // namespace tessera::cuda_backend
