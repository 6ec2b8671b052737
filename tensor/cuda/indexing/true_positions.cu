// The positions of a mask's true elements: a count for each tile, running sums of the counts, and then each
// tile writes its positions where they belong. The host waits once, for the number of all.
#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/indexing/advanced_indexing.h"
#include "tensor/cuda/indexing/scans.h"
#include "tensor/cuda/runtime/launch.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int bytes_per_thread = 16;
constexpr int64_t tile_elements = int64_t{bytes_per_thread} * threads_per_block;

/// This thread's elements of a tile of the mask; bit i is element i.
__device__ uint32_t thread_bits(const uint8_t* mask, int64_t begin, int64_t n) {
  uint32_t bits = 0;
  if (begin + bytes_per_thread <= n && reinterpret_cast<uintptr_t>(mask + begin) % bytes_per_thread == 0) {
    const auto pack = *reinterpret_cast<const Pack<uint8_t, bytes_per_thread>*>(mask + begin);
#pragma unroll
    for (int i = 0; i < bytes_per_thread; ++i) bits |= static_cast<uint32_t>(pack.at[i] != 0) << i;
    return bits;
  }
  for (int i = 0; i < bytes_per_thread && begin + i < n; ++i)
    bits |= static_cast<uint32_t>(mask[begin + i] != 0) << i;
  return bits;
}

/// The sum of the counts of the threads before this one, and of all.
struct CountBefore {
  uint32_t before, total;
};
__device__ CountBefore count_before(uint32_t count) {
  __shared__ uint32_t sums[threads_per_block / 32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t sum = count;
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const uint32_t other = __shfl_up_sync(0xffffffffu, sum, distance);
    if (lane >= distance) sum += other;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  uint32_t before = sum - count, total = 0;
  for (unsigned w = 0; w < threads_per_block / 32; ++w) {
    if (w < warp) before += sums[w];
    total += sums[w];
  }
  return {before, total};
}

__global__ void __launch_bounds__(threads_per_block, min_blocks)
    count_kernel(const uint8_t* mask, int64_t n, int64_t* counts) {
  const int64_t begin = blockIdx.x * tile_elements + int64_t{threadIdx.x} * bytes_per_thread;
  const CountBefore count = count_before(static_cast<uint32_t>(__popc(thread_bits(mask, begin, n))));
  if (threadIdx.x == 0) counts[blockIdx.x] = count.total;
}

/// The tile's positions are collected first, so that they are written side by side.
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    position_kernel(const uint8_t* mask, int64_t n, const int64_t* ends, int64_t* positions) {
  __shared__ uint16_t found[tile_elements];
  const int64_t tile = blockIdx.x * tile_elements;
  uint32_t bits = thread_bits(mask, tile + int64_t{threadIdx.x} * bytes_per_thread, n);
  const CountBefore count = count_before(static_cast<uint32_t>(__popc(bits)));
  for (uint32_t at = count.before; bits != 0; ++at, bits &= bits - 1)
    found[at] = static_cast<uint16_t>(threadIdx.x * bytes_per_thread + __ffs(static_cast<int>(bits)) - 1);
  __syncthreads();
  int64_t* const out = positions + ends[blockIdx.x] - count.total;
  for (uint32_t i = threadIdx.x; i < count.total; i += threads_per_block) out[i] = tile + found[i];
}

}  // namespace

void true_positions(const Tensor& mask, Tensor& positions) {
  const Device device = mask.device();
  const int64_t n = mask.numel();
  if (n == 0) {
    positions = Tensor::empty({0}, i64, device);
    return;
  }
  const int64_t tiles = (n + tile_elements - 1) / tile_elements;
  const Tensor counts = Tensor::empty({tiles}, i64, device), ends = Tensor::empty({tiles}, i64, device);
  const auto* values = static_cast<const uint8_t*>(mask.raw_data());
  const cuda_runtime::DeviceGuard guard(device);
  const cudaStream_t stream = cuda_runtime::current_stream(device);
  count_kernel<<<static_cast<unsigned>(tiles), threads_per_block, 0, stream>>>(
      values, n, static_cast<int64_t*>(counts.raw_data()));
  cuda_runtime::check_launch("nonzero");
  cumsum(counts, ends, 0);
  positions = Tensor::empty({ends.narrow(0, tiles - 1, 1).item_i64()}, i64, device);
  if (positions.numel() == 0) return;
  position_kernel<<<static_cast<unsigned>(tiles), threads_per_block, 0, stream>>>(
      values, n, static_cast<const int64_t*>(ends.raw_data()), static_cast<int64_t*>(positions.raw_data()));
  cuda_runtime::check_launch("nonzero");
}

}  // namespace tessera::kernels::cuda
