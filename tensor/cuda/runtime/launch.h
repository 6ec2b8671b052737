#pragma once  // internal

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/cuda/runtime/block_size.h"
#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/stream.h"

namespace tessera::kernels::cuda {

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
