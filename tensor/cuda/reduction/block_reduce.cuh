#pragma once  // internal

#include <cstdint>

/// Reductions over the threads of a block, in a tree of fixed shape: the same bits in every run.
namespace tessera::kernels::cuda {

/// Combines the values of a block's threads; every thread gets the result. All threads of the block take
/// part, and blockDim.x is a multiple of 32, at most 1024. `scratch`: 32 values in shared memory, free again
/// at the return.
template <class T, class Combine>
__device__ T block_reduce(T value, T* scratch, const Combine& combine) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  if (warps == 1) return value;
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  T total = scratch[0];
  for (unsigned w = 1; w < warps; ++w) total = combine(total, scratch[w]);
  __syncthreads();
  return total;
}

struct Add {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// The larger value; a NaN may be lost.
struct LargerOrAny {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};

/// Threads for a row of n elements: a multiple of 32, so that each has about 4.
inline unsigned threads_for_row(int64_t n) {
  unsigned threads = 32;
  while (threads < 512 && int64_t{4} * threads < n) threads *= 2;
  return threads;
}

}  // namespace tessera::kernels::cuda
