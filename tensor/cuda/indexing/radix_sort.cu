#include "tensor/cuda/indexing/radix_sort.h"

#include <cub/device/device_radix_sort.cuh>

#include "tensor/cuda/indexing/index.cuh"
#include "tensor/cuda/runtime/launch.h"

namespace tessera::kernels::cuda {
namespace {

template <class Key>
void sort_pairs(const char* where, Device device, const Key* keys, Key* sorted_keys, const uint32_t* values,
                uint32_t* sorted_values, int64_t count, int bits) {
  constexpr int64_t most = (int64_t{1} << 31) - 1;
  require<ValueError>(count <= most, where, " on ", device, ": expected at most ", most,
                      " elements to sort at once, got ", count);
  if (count == 0) return;
  const cuda_runtime::DeviceGuard guard(device);
  const cudaStream_t stream = cuda_runtime::current_stream(device);
  const auto sort = [&](void* scratch, size_t& bytes) {
    cuda_runtime::check(
        cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, values, sorted_values,
                                        static_cast<int>(count), 0, bits, stream),
        "cub::DeviceRadixSort::SortPairs");
  };
  size_t bytes = 0;
  sort(nullptr, bytes);
  const Tensor scratch = Tensor::empty({static_cast<int64_t>(bytes)}, u8, device);
  sort(scratch.raw_data(), bytes);
}

__global__ void __launch_bounds__(threads_per_block, min_blocks)
    key_kernel(IndexValues index, int64_t count, int64_t limit, uint32_t* keys, uint32_t* positions) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= count) return;
  const int64_t id = index[i];
  keys[i] = static_cast<uint32_t>(id >= 0 && id < limit ? id : limit);  // what is outside comes last
  positions[i] = static_cast<uint32_t>(i);
}

}  // namespace

void radix_sort(const char* where, Device device, const uint32_t* keys, uint32_t* sorted_keys,
                const uint32_t* values, uint32_t* sorted_values, int64_t count, int bits) {
  sort_pairs(where, device, keys, sorted_keys, values, sorted_values, count, bits);
}

void radix_sort(const char* where, Device device, const uint64_t* keys, uint64_t* sorted_keys,
                const uint32_t* values, uint32_t* sorted_values, int64_t count, int bits) {
  sort_pairs(where, device, keys, sorted_keys, values, sorted_values, count, bits);
}

SortedIndex sort_index(const char* where, const Tensor& index, int64_t limit) {
  constexpr int64_t most = (int64_t{1} << 32) - 2;
  const Device device = index.device();
  require<ValueError>(limit <= most, where, " on ", device, ": expected at most ", most,
                      " rows to index, got ", limit);
  const int64_t count = index.numel();
  const Tensor sorted = Tensor::empty({2, count}, i32, device),
               unsorted = Tensor::empty({2, count}, i32, device);
  uint32_t *const keys = static_cast<uint32_t*>(unsorted.raw_data()), *const sorted_keys =
                                                                          static_cast<uint32_t*>(
                                                                              sorted.raw_data());
  launch(where, device, count, [&](dim3 grid, dim3 block, cudaStream_t stream) {
    key_kernel<<<grid, block, 0, stream>>>(IndexValues(index), count, limit, keys, keys + count);
  });
  radix_sort(where, device, keys, sorted_keys, keys + count, sorted_keys + count, count, bits_for(limit));
  return {sorted, sorted_keys, sorted_keys + count};
}

}  // namespace tessera::kernels::cuda
