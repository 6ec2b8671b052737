// A result that another stream reads, twice: without a wait for the stream that makes it, and with one.
#include <cstdio>
#include <string>
#include <vector>

#include "tools/examples/cuda/card.h"

constexpr int count = 1024;

__global__ void fill(int* x) {
  x[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

__global__ void add_one(const int* x, int* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] + 1;
}

/// The first finding of a run, or "no findings".
uint64_t run(bool waits, int* x, int* y) {
  cudaStream_t making, reading;
  cudaEvent_t made;
  card::check(cudaStreamCreateWithFlags(&making, cudaStreamNonBlocking));
  card::check(cudaStreamCreateWithFlags(&reading, cudaStreamNonBlocking));
  card::check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
  fill<<<count / 256, 256, 0, making>>>(x);
  card::check(cudaEventRecord(made, making));
  if (waits) card::check(cudaStreamWaitEvent(reading, made));  // else `reading` may be first
  add_one<<<count / 256, 256, 0, reading>>>(x, y);
  card::check(cudaDeviceSynchronize());
  std::string text;
  const uint64_t findings = card::take_findings(text);
  std::printf("%s a wait: %s\n", waits ? "with" : "without",
              findings == 0 ? "no findings" : text.substr(0, text.find('\n')).c_str());
  card::check(cudaEventDestroy(made));
  card::check(cudaStreamDestroy(making));
  card::check(cudaStreamDestroy(reading));
  return findings;
}

int main() {
  const card::Array<int> x(count), y(count);
  card::check(cudaMemset(x.data, 0, count * sizeof(int)));
  card::check(cudaDeviceSynchronize());
  if (const auto print = card::simulated<void(int)>("tessera_cuda_sim_print")) print(0);
  const uint64_t without = run(false, x.data, y.data), with = run(true, x.data, y.data);
  return with == 0 && (without != 0 || !card::is_simulated()) ? 0 : 1;
}
