// Sums and maxima over the threads of a warp and of a block.
#pragma once

#include <cuda_bf16.h>

#include "tools/bench/cuda_sim/faults.h"

namespace tessera::sample_kernels {

inline constexpr unsigned whole_warp = 0xffffffffu;

__device__ inline float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(whole_warp, value, distance);
  return value;
}

__device__ inline float warp_max(float value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(whole_warp, value, distance));
  return value;
}

/// Lines that the seeded faults of `block_sum` are reported at.
inline constexpr int partial_written_line = __LINE__ + 8, partial_read_line = __LINE__ + 12;

/// The sum over a block of `warps` warps, the same bits in all its threads.
template <int warps, Fault fault = Fault::none>
__device__ float block_sum(float value) {
  __shared__ float partial[warps];
  value = warp_sum(value);
  if constexpr (fault != Fault::sum_without_first_barrier) __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  if constexpr (fault != Fault::sum_without_second_barrier) __syncthreads();
  float total = 0;
#pragma unroll
  for (int warp = 0; warp < warps; ++warp) total += partial[warp];
  return total;
}

}  // namespace tessera::sample_kernels
