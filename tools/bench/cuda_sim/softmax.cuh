// Softmax: a warp for each row.
#pragma once

#include "tools/bench/cuda_sim/sums.cuh"

namespace tessera::sample_kernels {

inline constexpr int softmax_rows = 8;  ///< of a block

/// The line that the seeded fault is reported at.
inline constexpr int largest_read_line = __LINE__ + 11;

template <class T, Fault fault = Fault::none>
__global__ void softmax(const T* x, T* y, int rows, int columns) {
  const int row = blockIdx.x * softmax_rows + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const T* const in = x + static_cast<size_t>(row) * columns;
  T* const out = y + static_cast<size_t>(row) * columns;
  const int end = fault == Fault::softmax_one_element_too_far ? columns + 1 : columns;
  float largest = -INFINITY, sum = 0;
  for (int c = lane; c < end; c += 32) {
    largest = fmaxf(largest, static_cast<float>(in[c]));
  }
  largest = warp_max(largest);
  for (int c = lane; c < columns; c += 32) sum += __expf(static_cast<float>(in[c]) - largest);
  sum = warp_sum(sum);
  for (int c = lane; c < columns; c += 32)
    out[c] = static_cast<T>(__expf(static_cast<float>(in[c]) - largest) / sum);
}

}  // namespace tessera::sample_kernels
