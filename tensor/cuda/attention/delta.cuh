#pragma once  // internal

#include "tensor/cuda/attention/load_elements.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/elementwise/arithmetic.h"

namespace tessera::kernels::cuda::fused_attention {

/// delta[row] = the sum of dout out, which is that of weight x gradient over a query's keys (Dao et al.
/// 2022). A warp has a row, a lane 16 bytes at a time. Traffic: dout and out once.
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    delta_kernel(Heads<const T> dout, Heads<const T> out, int heads, int queries, int width, int64_t rows,
                 Computed<T>* delta) {
  using A = Computed<T>;
  constexpr int pack = 16 / sizeof(T);
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (threads_per_block / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32, i = static_cast<int>(row % queries),
            h = static_cast<int>(row / queries % heads), b = static_cast<int>(row / queries / heads);
  const T *const x = dout.of(b, h) + i * dout.row, *const y = out.of(b, h) + i * out.row;
  A sum = 0;
  for (int d = lane * pack; d < width; d += 32 * pack) {
    A left[pack], right[pack];
    load_elements<pack>(x, d, width, dout.packed, left);
    load_elements<pack>(y, d, width, out.packed, right);
#pragma unroll
    for (int e = 0; e < pack; ++e) sum = elementwise::fma(left[e], right[e], sum);
  }
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (lane == 0) delta[row] = sum;
}

}  // namespace tessera::kernels::cuda::fused_attention
