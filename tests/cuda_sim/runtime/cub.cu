// CUB's scan, sort, reduce, select and segmented sort: code that is not ours, with warps that wait for one
// another across blocks.
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

#include "tests/cuda_sim/device_check.h"

namespace {

constexpr int n = 20'000;

struct World {
  std::vector<float> host;
  float *in = nullptr, *out = nullptr;
  World() : host(n) {
    std::mt19937 random(1);
    for (float& x : host) x = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
    REQUIRE_OK(cudaMalloc(&in, n * sizeof(float)));
    REQUIRE_OK(cudaMalloc(&out, n * sizeof(float)));
    REQUIRE_OK(cudaMemcpy(in, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  }
  ~World() {
    CHECK_OK(cudaFree(in));
    CHECK_OK(cudaFree(out));
  }
  std::vector<float> get(int count) {
    std::vector<float> values(static_cast<size_t>(count));
    REQUIRE_OK(cudaMemcpy(values.data(), out, values.size() * sizeof(float), cudaMemcpyDeviceToHost));
    return values;
  }
};

/// Calls `body(memory, bytes)` as CUB asks: for the size, then with memory of that size.
template <class Body>
void with_memory(Body body) {
  size_t bytes = 0;
  void* memory = nullptr;
  CHECK_OK(body(nullptr, bytes));
  REQUIRE_OK(cudaMalloc(&memory, bytes));
  CHECK_OK(body(memory, bytes));
  CHECK_OK(cudaDeviceSynchronize());
  CHECK_OK(cudaFree(memory));
}

}  // namespace

TEST_CASE("cub scan") {
  World w;
  with_memory([&](void* memory, size_t& bytes) {
    return cub::DeviceScan::InclusiveSum(memory, bytes, w.in, w.out, n);
  });
  const std::vector<float> sums = w.get(n);
  double sum = 0;
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += sums[i] != static_cast<float>(sum += w.host[i]);
  CHECK_EQ(wrong, 0);
  CHECK(device_check::none());
}

TEST_CASE("cub sort") {
  World w;
  with_memory([&](void* memory, size_t& bytes) {
    return cub::DeviceRadixSort::SortKeys(memory, bytes, w.in, w.out, n);
  });
  std::vector<float> expected = w.host;
  std::sort(expected.begin(), expected.end());
  CHECK(w.get(n) == expected);
  CHECK(device_check::none());
}

TEST_CASE("cub reduce") {
  World w;
  with_memory(
      [&](void* memory, size_t& bytes) { return cub::DeviceReduce::Sum(memory, bytes, w.in, w.out, n); });
  double sum = 0;
  for (const float x : w.host) sum += x;
  CHECK_EQ(w.get(1)[0], static_cast<float>(sum));
  CHECK(device_check::none());
}

struct IsPositive {
  __host__ __device__ bool operator()(float x) const { return x > 0; }
};

TEST_CASE("cub select") {
  World w;
  int* count = nullptr;
  REQUIRE_OK(cudaMalloc(&count, sizeof(int)));
  with_memory([&](void* memory, size_t& bytes) {
    return cub::DeviceSelect::If(memory, bytes, w.in, w.out, count, n, IsPositive{});
  });
  std::vector<float> expected;
  std::copy_if(w.host.begin(), w.host.end(), std::back_inserter(expected), IsPositive{});
  int selected = 0;
  CHECK_OK(cudaMemcpy(&selected, count, sizeof selected, cudaMemcpyDeviceToHost));
  CHECK_EQ(selected, static_cast<int>(expected.size()));
  CHECK(w.get(static_cast<int>(expected.size())) == expected);
  CHECK_OK(cudaFree(count));
  CHECK(device_check::none());
}

TEST_CASE("cub sort of segments, one of them empty") {
  World w;
  const std::vector<int> ends = {0, 3, 3, 5000, 5001, n};
  int* offsets = nullptr;
  REQUIRE_OK(cudaMalloc(&offsets, ends.size() * sizeof(int)));
  REQUIRE_OK(cudaMemcpy(offsets, ends.data(), ends.size() * sizeof(int), cudaMemcpyHostToDevice));
  const int segments = static_cast<int>(ends.size()) - 1;
  with_memory([&](void* memory, size_t& bytes) {
    return cub::DeviceSegmentedRadixSort::SortKeys(memory, bytes, w.in, w.out, n, segments, offsets,
                                                   offsets + 1);
  });
  std::vector<float> expected = w.host;
  for (int i = 0; i < segments; ++i) std::sort(expected.begin() + ends[i], expected.begin() + ends[i + 1]);
  CHECK(w.get(n) == expected);
  CHECK_OK(cudaFree(offsets));
  CHECK(device_check::none());
}

int main(int argc, char** argv) {
  return device_check::run(argc, argv);
}
