#pragma once  // internal

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/stream.h"

namespace tessera::kernels::cuda {

/// Threads of a block where a kernel needs no other number: 8 warps.
inline constexpr int threads_per_block = 256;
/// The least number of such blocks that a multiprocessor must be able to hold: 128 registers a thread.
/// Without it ptxas may hold a kernel to 32 registers, and spill.
inline constexpr int min_blocks = 2;

/// Calls `body(grid, block, stream)`, which launches a kernel with one thread for each of `threads`, on
/// `device`'s current stream. Throws what the launch failed with, naming `name`.
template <class Body>
void launch(const char* name, Device device, int64_t threads, const Body& body) {
  if (threads == 0) return;
  const cuda_runtime::DeviceGuard guard(device);
  const int64_t blocks = (threads + threads_per_block - 1) / threads_per_block;
  body(dim3(static_cast<unsigned>(blocks)), dim3(threads_per_block), cuda_runtime::current_stream(device));
  cuda_runtime::check_launch(name);
}

}  // namespace tessera::kernels::cuda
