// Sums of the rows of a matrix, twice: with a thread for each row, and with a warp for each row. The sums are
// the same; the first reads eight times as much.
#include <cstdio>
#include <vector>

#include "tools/examples/cuda/card.h"

constexpr int rows = 256, columns = 512;

// Neighbouring threads read addresses that are a row apart: a sector of 32 bytes for each, of which 4 are
// used.
__global__ void sum_by_thread(const float* x, float* sums) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int column = 0; column < columns; ++column) sum += x[row * columns + column];
  sums[row] = sum;
}

// Neighbouring threads read neighbouring values: the 128 bytes of a warp are four sectors, and all of them
// are used.
__global__ void sum_by_warp(const float* x, float* sums) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  float sum = 0;
  for (int column = lane; column < columns; column += 32) sum += x[row * columns + column];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (lane == 0) sums[row] = sum;
}

/// Sectors that a request of a warp takes, and how many bytes it reads for each that it asks for.
void print(const char* kernel) {
  const double requests = card::count(kernel, "load_requests"), sectors = card::count(kernel, "load_sectors");
  std::printf("%-13s %4.1f sectors a request, %4.1f bytes read for each that was asked for\n", kernel,
              sectors / requests, 32 * sectors / card::count(kernel, "load_bytes"));
}

int main() {
  std::vector<float> x(rows * columns), first(rows), second(rows);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
  const card::Array<float> values(x.size()), sums(rows);
  card::check(cudaMemcpy(values.data, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
  sum_by_thread<<<rows / 64, 64>>>(values.data, sums.data);
  card::check(cudaMemcpy(first.data(), sums.data, rows * sizeof(float), cudaMemcpyDeviceToHost));
  sum_by_warp<<<rows / 8, 256>>>(values.data, sums.data);
  card::check(cudaMemcpy(second.data(), sums.data, rows * sizeof(float), cudaMemcpyDeviceToHost));
  const bool is_same = first == second;
  std::printf("the sums are %s\n", is_same ? "the same" : "different");
  if (!card::is_simulated()) return is_same ? 0 : 1;
  print("sum_by_thread");
  print("sum_by_warp");
  const bool is_shown =
      card::count("sum_by_thread", "load_sectors") == 8 * card::count("sum_by_warp", "load_sectors");
  return is_same && is_shown ? 0 : 1;
}
