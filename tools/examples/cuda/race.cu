// The sum of a block's values, twice: without a barrier between two steps, and with it. What the first gives
// depends on which warp comes first. The finding does not: it follows from the order that the program asks
// for.
#include <cstdio>
#include <string>
#include <vector>

#include "tools/examples/cuda/card.h"

constexpr int threads = 256;

// In each step a thread reads what another one wrote in the step before. Nothing says that this was before.
__global__ void sum_without_barrier(const float* x, float* sum) {
  __shared__ float values[threads];
  values[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2)
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
  if (threadIdx.x == 0) *sum = values[0];
}

// The barrier is outside the condition: all threads of a block must come to it.
__global__ void sum_with_barrier(const float* x, float* sum) {
  __shared__ float values[threads];
  values[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) *sum = values[0];
}

/// Runs a kernel, prints its sum and the first finding. The number of findings.
uint64_t run(const char* name, void (*kernel)(const float*, float*), const float* x, float* sum) {
  kernel<<<1, threads>>>(x, sum);
  float value = 0;
  card::check(cudaMemcpy(&value, sum, sizeof value, cudaMemcpyDeviceToHost));
  std::string text;
  const uint64_t findings = card::take_findings(text);
  std::printf("%-19s sum %g, %s\n", name, value,
              findings == 0 ? "no findings" : text.substr(0, text.find('\n')).c_str());
  return findings;
}

int main() {
  const std::vector<float> ones(threads, 1.0f);
  const card::Array<float> x(threads), sum(1);
  card::check(cudaMemcpy(x.data, ones.data(), threads * sizeof(float), cudaMemcpyHostToDevice));
  if (const auto print = card::simulated<void(int)>("tessera_cuda_sim_print")) print(0);
  const uint64_t without = run("sum_without_barrier", sum_without_barrier, x.data, sum.data);
  const uint64_t with = run("sum_with_barrier", sum_with_barrier, x.data, sum.data);
  return with == 0 && (without != 0 || !card::is_simulated()) ? 0 : 1;
}
