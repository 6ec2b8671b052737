#pragma once  // internal

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/device.h"

namespace tessera::cuda_runtime {

/// What the caching allocator of a device has done so far, and holds now.
struct DeviceAllocatorStatistics {
  int64_t device_allocations = 0;  ///< calls of cudaMalloc; constant in a steady training step
  int64_t reserved = 0;            ///< bytes taken from the device and not given back
  int64_t used = 0;                ///< of these, bytes of blocks in use, as requested
  int64_t peak_used = 0;           ///< the most of them at once
  int64_t waiting = 0;             ///< bytes freed that another stream or a graph may still use
};

/// `nbytes` of uninitialised memory of `device`, 512-byte aligned (null for 0 bytes), for work on `stream`:
/// what was given back on that stream is given out again at once, since the stream runs in order. Throws
/// OutOfMemoryError with the bytes asked for, those in use, and the largest block that would fit.
/// Thread-safe.
void* device_allocate(Device device, int64_t nbytes, cudaStream_t stream);
/// `nbytes` by cudaMalloc, for what lives as long as the process, where the caller gives it back by cudaFree;
/// the cache is given back first where it is in the way. Throws as `device_allocate`.
void* device_allocate_apart(Device device, int64_t nbytes);
/// Gives a block back to the stream that it was allocated for.
void device_free(Device device, void* block) noexcept;
/// Says that work on `stream`, other than the block's own, uses the block: it is not given out again before
/// what `stream` has been given at the time of `device_free` has ended. Where this thread records a
/// graph with `stream` then, it is given out again when the graph, which uses it at each launch, is gone.
/// The second form is for a stream of another device.
/// @{
void use_on_stream(Device device, void* block, cudaStream_t stream);
void use_on_stream(Device device, void* block, Device stream_device, cudaStream_t stream);
/// @}
/// Segments of `stream` are not given back to the device while it lives: a graph that it recorded uses their
/// addresses, whether blocks of them are in use or not.
void keep_segments_of(Device device, cudaStream_t stream);
/// Says that `stream` has ended and is destroyed: no block of any device waits for it any more, and none is
/// kept for it.
void forget_stream(cudaStream_t stream);
/// Gives segments without a block in use back to the device.
void device_empty_cache(Device device);
DeviceAllocatorStatistics device_allocator_statistics(Device device);

}  // namespace tessera::cuda_runtime
