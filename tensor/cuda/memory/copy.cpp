// Copies between devices. What lies in evenly spaced rows is copied as it is; other layouts are made
// contiguous first, where they are.
#include <cuda_runtime_api.h>

#include <mutex>
#include <set>
#include <utility>

#include "tensor/cuda/backend.h"
#include "tensor/cuda/memory/device_allocator.h"
#include "tensor/cuda/memory/pinned_memory.h"
#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/graph.h"
#include "tensor/cuda/runtime/late_errors.h"
#include "tensor/cuda/runtime/stream.h"
#include "tensor/strided_loop.h"
#include "tensor/tensor.h"

namespace tessera::cuda_backend {

using namespace cuda_runtime;

namespace {

/// The work of `stream` on `device` that is needed by another device's stream.
void wait_for(Device device, cudaStream_t stream, Device waiting, cudaStream_t waiting_stream) {
  Event event(device);
  event.record(stream);
  const DeviceGuard guard(waiting);
  event.block(waiting_stream);
}

/// Rows of bytes, evenly spaced in the source and without gaps in the target.
struct Rows {
  size_t count = 0, bytes = 0, pitch = 0;
};

/// The rows of a copy to a contiguous target; none where the source has another layout, or rows so short that
/// a copy of each is slower than one pass over all.
Rows rows_of(const Tensor& source, const Tensor& target) {
  constexpr int64_t least = 64, most_pitch = int64_t{1} << 31;
  const kernels::StridedLoop<2> loop(target.shape(), {&target.strides(), &source.strides()});
  const int last = loop.ndim - 1;
  const int64_t width = loop.inner() * size_of(target.dtype());
  if (loop.strides[1][last] != 1 && loop.inner() > 1) return {};
  if (loop.ndim == 1) return {1, static_cast<size_t>(width), static_cast<size_t>(width)};
  const int64_t pitch = loop.strides[1][0] * size_of(target.dtype());
  if (loop.ndim > 2 || width < least || pitch < width || pitch >= most_pitch) return {};
  return {static_cast<size_t>(loop.extents[0]), static_cast<size_t>(width), static_cast<size_t>(pitch)};
}

void copy_rows(const Tensor& source, const Tensor& target, const Rows& rows, cudaMemcpyKind kind,
               cudaStream_t stream) {
  if (rows.count == 1)
    check(cudaMemcpyAsync(target.raw_data(), source.raw_data(), rows.bytes, kind, stream), "cudaMemcpyAsync");
  else
    check(cudaMemcpy2DAsync(target.raw_data(), rows.bytes, source.raw_data(), rows.pitch, rows.bytes,
                            rows.count, kind, stream),
          "cudaMemcpy2DAsync");
}

/// Lets `reader` reach the memory of `owner` without a detour over the host, where the machine can; once for
/// each pair.
void enable_peer_access(Device reader, Device owner) {
  static std::mutex mutex;
  static auto* done = new std::set<std::pair<int, int>>;
  const std::lock_guard lock(mutex);
  if (!done->emplace(reader.index, owner.index).second) return;
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, reader.index, owner.index), "cudaDeviceCanAccessPeer");
  if (can == 0) return;
  const DeviceGuard guard(reader);
  const cudaError_t status = cudaDeviceEnablePeerAccess(owner.index, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled)
    cudaGetLastError();  // not an error: takes it out of the thread's last one
  else
    check(status, "cudaDeviceEnablePeerAccess");
}

void copy_between_cards(const Tensor& given, const Tensor& target) {
  const Tensor source = given.contiguous();
  const Device from = source.device(), to = target.device();
  const cudaStream_t stream = current_stream(to);
  enable_peer_access(to, from);
  wait_for(from, current_stream(from), to, stream);
  use_on_stream(from, source.storage()->data(), to, stream);
  const DeviceGuard guard(to);
  check(cudaMemcpyPeerAsync(target.raw_data(), to.index, source.raw_data(), from.index,
                            static_cast<size_t>(target.nbytes()), stream),
        "cudaMemcpyPeerAsync");
  wait_for(to, stream, from, current_stream(from));  // what changes the source comes after the copy
}

}  // namespace

void copy(const Tensor& given, const Tensor& target, bool waits) {
  if (target.numel() == 0) return;
  const Device from = given.device(), to = target.device();
  if (from.is_cuda() && to.is_cuda()) return copy_between_cards(given, target);
  Rows rows = rows_of(given, target);
  const Tensor source = rows.count == 0 ? given.contiguous() : given;
  if (rows.count == 0) rows = {1, static_cast<size_t>(target.nbytes()), 0};
  const Device device = to.is_cuda() ? to : from;
  const DeviceGuard guard(device);
  const cudaStream_t stream = current_stream(device);
  const void* const on_host = to.is_cuda() ? source.raw_data() : target.raw_data();
  const bool pinned = cuda_runtime::is_pinned(on_host);
  // A copy to pageable memory waits, which a capture refuses by itself.
  require<DeviceError>(
      (from.is_cuda() && !pinned) || !is_capturing(stream), "copy from ", from, " to ", to,
      ": while a stream captures a graph nothing is copied from or to the host, whose memory "
      "each launch would use again; copy before or after the launch");
  copy_rows(source, target, rows, to.is_cuda() ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream);
  // The runtime has read pageable memory when the call returns; the caller may change it.
  if (to.is_cuda() && !pinned) return;
  if (pinned && !waits) return use_pinned(on_host, device, stream);
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  if (from.is_cuda()) throw_late_errors(device);
}

bool is_pinned(const Tensor& x) {
  return x.device().is_cpu() && cuda_runtime::is_pinned(x.raw_data());
}

std::shared_ptr<MemorySource> pinned_memory() {
  return cuda_runtime::pinned_memory();
}

}  // namespace tessera::cuda_backend
