// Layer norm: a block of 256 threads for each row, and 32 columns of all rows for the weight's gradient.
#pragma once

#include "tools/bench/cuda_sim/sums.cuh"

namespace tessera::sample_kernels {

inline constexpr int norm_threads = 256;
inline constexpr int gradient_columns = 32, gradient_rows = 8;  ///< of a block of weight gradients

template <class T, Fault fault = Fault::none>
__global__ void layer_norm(const T* x, const float* weight, const float* bias, T* y, float* mean,
                           float* inverse_deviation, int columns, float epsilon) {
  constexpr int warps = norm_threads / 32;
  const T* const row = x + static_cast<size_t>(blockIdx.x) * columns;
  T* const out = y + static_cast<size_t>(blockIdx.x) * columns;
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += norm_threads) sum += static_cast<float>(row[c]);
  const float center = block_sum<warps, fault>(sum) / columns;
  float squares = 0;
  for (int c = threadIdx.x; c < columns; c += norm_threads) {
    const float distance = static_cast<float>(row[c]) - center;
    squares += distance * distance;
  }
  const float inverse = rsqrtf(block_sum<warps, fault>(squares) / columns + epsilon);
  for (int c = threadIdx.x; c < columns; c += norm_threads)
    out[c] = static_cast<T>((static_cast<float>(row[c]) - center) * inverse * weight[c] + bias[c]);
  if (threadIdx.x == 0) {
    mean[blockIdx.x] = center;
    inverse_deviation[blockIdx.x] = inverse;
  }
}

template <class T>
__global__ void layer_norm_input_gradient(const T* grad_output, const T* x, const float* weight,
                                          const float* mean, const float* inverse_deviation, T* grad_input,
                                          int columns) {
  constexpr int warps = norm_threads / 32;
  const size_t first = static_cast<size_t>(blockIdx.x) * columns;
  const float center = mean[blockIdx.x], inverse = inverse_deviation[blockIdx.x];
  float sum = 0, sum_of_products = 0;
  for (int c = threadIdx.x; c < columns; c += norm_threads) {
    const float gradient = static_cast<float>(grad_output[first + c]) * weight[c];
    sum += gradient;
    sum_of_products += gradient * (static_cast<float>(x[first + c]) - center) * inverse;
  }
  const float mean_gradient = block_sum<warps>(sum) / columns;
  const float mean_product = block_sum<warps>(sum_of_products) / columns;
  for (int c = threadIdx.x; c < columns; c += norm_threads) {
    const float normal = (static_cast<float>(x[first + c]) - center) * inverse;
    const float gradient = static_cast<float>(grad_output[first + c]) * weight[c];
    grad_input[first + c] = static_cast<T>(inverse * (gradient - mean_gradient - normal * mean_product));
  }
}

/// The line that the seeded fault of the weight's gradient is reported at.
inline constexpr int gradient_read_line = __LINE__ + 24;

/// Sums in a fixed order, without atomics.
template <class T, Fault fault = Fault::none>
__global__ void layer_norm_weight_gradient(const T* grad_output, const T* x, const float* mean,
                                           const float* inverse_deviation, float* grad_weight,
                                           float* grad_bias, int rows, int columns) {
  __shared__ float weights[gradient_rows][gradient_columns], biases[gradient_rows][gradient_columns];
  const int column = blockIdx.x * gradient_columns + threadIdx.x;
  float weight = 0, bias = 0;
  if (column < columns) {
    for (int row = threadIdx.y; row < rows; row += gradient_rows) {
      const size_t at = static_cast<size_t>(row) * columns + column;
      const float gradient = static_cast<float>(grad_output[at]);
      weight += gradient * (static_cast<float>(x[at]) - mean[row]) * inverse_deviation[row];
      bias += gradient;
    }
  }
  weights[threadIdx.y][threadIdx.x] = weight;
  biases[threadIdx.y][threadIdx.x] = bias;
  if constexpr (fault != Fault::weight_gradient_no_barrier) __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
#pragma unroll 1
  for (int row = 1; row < gradient_rows; ++row) {
    weight += weights[row][threadIdx.x];
    bias += biases[row][threadIdx.x];
  }
  grad_weight[column] = weight;
  grad_bias[column] = bias;
}

}  // namespace tessera::sample_kernels
