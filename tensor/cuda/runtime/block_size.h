#pragma once  // internal

namespace tessera::kernels::cuda {

/// Threads of a block where a kernel needs no other number: 8 warps.
inline constexpr int threads_per_block = 256;
/// The least number of such blocks that a multiprocessor must be able to hold: 128 registers a thread.
/// Without it ptxas may hold a kernel to 32 registers, and spill.
inline constexpr int min_blocks = 2;

}  // namespace tessera::kernels::cuda
