// AdamW over many tensors in one launch: a block for each chunk of a tensor.
#pragma once

#include <cstdint>

namespace tessera::sample_kernels {

inline constexpr int adamw_tensors = 24, adamw_chunk = 1024, adamw_threads = 256;

struct AdamwTensor {
  float* parameter;
  const float* gradient;
  float *first_moment, *second_moment;
  int64_t numel;
};

struct AdamwTensors {
  AdamwTensor tensor[adamw_tensors];
  int first_block[adamw_tensors + 1];
};

struct AdamwStep {
  float learning_rate, beta1, beta2, epsilon, weight_decay;
  float correction1, correction2;  ///< 1 - beta^step
};

/// `scale`: of all gradients, on the device, as clipping leaves it.
__global__ void adamw(const __grid_constant__ AdamwTensors tensors, const AdamwStep step,
                      const float* scale) {
  int index = 0;
  while (static_cast<int>(blockIdx.x) >= tensors.first_block[index + 1]) ++index;
  const AdamwTensor& tensor = tensors.tensor[index];
  const int64_t begin = static_cast<int64_t>(blockIdx.x - tensors.first_block[index]) * adamw_chunk;
  const int64_t end = begin + adamw_chunk < tensor.numel ? begin + adamw_chunk : tensor.numel;
  const float factor = *scale;
  for (int64_t i = begin + threadIdx.x; i < end; i += adamw_threads) {
    const float gradient = tensor.gradient[i] * factor;
    const float first = step.beta1 * tensor.first_moment[i] + (1 - step.beta1) * gradient;
    const float second = step.beta2 * tensor.second_moment[i] + (1 - step.beta2) * gradient * gradient;
    tensor.first_moment[i] = first;
    tensor.second_moment[i] = second;
    const float parameter = tensor.parameter[i];
    const float direction = first / step.correction1 / (sqrtf(second / step.correction2) + step.epsilon);
    tensor.parameter[i] = parameter - step.learning_rate * (direction + step.weight_decay * parameter);
  }
}

}  // namespace tessera::sample_kernels
