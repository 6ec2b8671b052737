// A matrix transposed by tiles in shared memory, twice: with rows of 32 values in the tile, and with rows
// of 33.
#include <cstdio>
#include <vector>

#include "tools/examples/cuda/card.h"

constexpr int side = 128;

// Shared memory has 32 banks, one for each 4 bytes in turn. Here the values of a column are in one bank: a
// warp that reads a column takes 32 turns.
__global__ void transpose_by_32(const float* x, float* y) {
  __shared__ float tile[32][32];
  const int row = blockIdx.y * 32, column = blockIdx.x * 32;
  tile[threadIdx.y][threadIdx.x] = x[(row + threadIdx.y) * side + column + threadIdx.x];
  __syncthreads();
  y[(column + threadIdx.y) * side + row + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

// One more value in each row moves every row to the next bank: a column is in 32 banks, and is read in one
// turn.
__global__ void transpose_by_33(const float* x, float* y) {
  __shared__ float tile[32][33];
  const int row = blockIdx.y * 32, column = blockIdx.x * 32;
  tile[threadIdx.y][threadIdx.x] = x[(row + threadIdx.y) * side + column + threadIdx.x];
  __syncthreads();
  y[(column + threadIdx.y) * side + row + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

/// Turns of shared memory that an access of a warp takes: 1 for the store, and those of the load.
double turns(const char* kernel) {
  return card::count(kernel, "shared_wavefronts") / card::count(kernel, "shared_requests");
}

int main() {
  std::vector<float> x(side * side), first(x.size()), second(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const size_t bytes = x.size() * sizeof(float);
  const card::Array<float> values(x.size()), transposed(x.size());
  const dim3 grid(side / 32, side / 32), block(32, 32);
  card::check(cudaMemcpy(values.data, x.data(), bytes, cudaMemcpyHostToDevice));
  transpose_by_32<<<grid, block>>>(values.data, transposed.data);
  card::check(cudaMemcpy(first.data(), transposed.data, bytes, cudaMemcpyDeviceToHost));
  transpose_by_33<<<grid, block>>>(values.data, transposed.data);
  card::check(cudaMemcpy(second.data(), transposed.data, bytes, cudaMemcpyDeviceToHost));
  const bool is_same = first == second && first[1] == x[side];
  std::printf("the matrices are %s\n", is_same ? "the same" : "different");
  if (!card::is_simulated()) return is_same ? 0 : 1;
  std::printf("transpose_by_32 %4.1f turns for an access of shared memory\n", turns("transpose_by_32"));
  std::printf("transpose_by_33 %4.1f turns for an access of shared memory\n", turns("transpose_by_33"));
  return is_same && turns("transpose_by_32") == 16.5 && turns("transpose_by_33") == 1 ? 0 : 1;
}
