// A block takes a chunk of one tensor, which it finds in the launch's own arguments.
#include "tensor/cuda/training/multi_tensor.h"

#include <cmath>
#include <map>
#include <vector>

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/reduction/block_reduce.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/elementwise/arithmetic.h"
#include "tensor/elementwise/power.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int64_t chunk_elements = 16 * threads_per_block;
/// Tensors of a launch: their arguments stay below 4 KiB.
constexpr int tensors_per_launch = 96;

/// Some tensors of one dtype.
struct Batch {
  struct Item {
    void* data;
    int64_t count;
    uint32_t end;    ///< the first block behind this item's
    int32_t number;  ///< in the caller's list
  };
  int size = 0;
  Item items[tensors_per_launch];

  __device__ int item_of(uint32_t block) const {
    int at = 0;
    while (items[at].end <= block) ++at;
    return at;
  }
  __device__ uint32_t first_block(int item) const { return item == 0 ? 0 : items[item - 1].end; }
  uint32_t blocks() const { return items[size - 1].end; }
};

/// Calls `body(TypeTag<T>, batch)` for all tensors with elements, in batches of one dtype.
template <class Body>
void for_each_batch(std::span<const Tensor> tensors, const Body& body) {
  std::map<DType, std::vector<int32_t>> by_dtype;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].defined() && tensors[i].numel() > 0)
      by_dtype[tensors[i].dtype()].push_back(static_cast<int32_t>(i));
  for (const auto& [dtype, members] : by_dtype) {
    for (size_t first = 0; first < members.size(); first += tensors_per_launch) {
      Batch batch{};
      uint32_t blocks = 0;
      for (size_t i = first; i < std::min(members.size(), first + tensors_per_launch); ++i) {
        const Tensor& tensor = tensors[members[i]];
        blocks += static_cast<uint32_t>((tensor.numel() + chunk_elements - 1) / chunk_elements);
        batch.items[batch.size++] = {tensor.raw_data(), tensor.numel(), blocks, members[i]};
      }
      with_floating(dtype, [&]<class T>(TypeTag<T> tag) { body(tag, batch); });
    }
  }
}

/// Calls `body(element)` for this thread's elements of the block's chunk.
template <class T, class Body>
__device__ void for_each_element(const Batch& batch, int item, const Body& body) {
  const int64_t begin = static_cast<int64_t>(blockIdx.x - batch.first_block(item)) * chunk_elements;
  const int64_t end = min(batch.items[item].count, begin + chunk_elements);
  T* data = static_cast<T*>(batch.items[item].data);
  for (int64_t i = begin + threadIdx.x; i < end; i += threads_per_block) body(data[i]);
}

/// The larger value; NaN if one of them is.
struct Larger {
  __device__ double operator()(double a, double b) const { return b > a || b != b ? b : a; }
};

/// |x|^p of every element, added up by block, in f64; the largest |x| for p = infinity.
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    power_kernel(const __grid_constant__ Batch batch, double p, double* partials) {
  __shared__ double scratch[32];
  double sum = 0;
  for_each_element<T>(batch, batch.item_of(blockIdx.x), [&](T& element) {
    const double magnitude = elementwise::abs(static_cast<double>(loaded(element)));
    if (isinf(p))
      sum = Larger()(sum, magnitude);
    else
      sum += p == 2 ? magnitude * magnitude : p == 1 ? magnitude : elementwise::pow(magnitude, p);
  });
  sum = isinf(p) ? block_reduce(sum, scratch, Larger()) : block_reduce(sum, scratch, Add());
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

/// A block for each tensor adds its blocks' sums.
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    power_total_kernel(const __grid_constant__ Batch batch, double p, const double* partials, double* sums) {
  __shared__ double scratch[32];
  double sum = 0;
  for (uint32_t block = batch.first_block(blockIdx.x) + threadIdx.x; block < batch.items[blockIdx.x].end;
       block += threads_per_block)
    sum = isinf(p) ? Larger()(sum, partials[block]) : sum + partials[block];
  sum = isinf(p) ? block_reduce(sum, scratch, Larger()) : block_reduce(sum, scratch, Add());
  if (threadIdx.x == 0) sums[batch.items[blockIdx.x].number] = sum;
}

/// Multiplies by the factor, which is read on the device; the number of the first tensor with a product that
/// is not finite goes to `first`, as an unsigned number, of which none is the largest.
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    scale_kernel(const __grid_constant__ Batch batch, const double* on_device, double on_host,
                 unsigned long long* first) {
  const Computed<T> factor = static_cast<Computed<T>>(on_device != nullptr ? *on_device : on_host);
  const int item = batch.item_of(blockIdx.x);
  bool finite = true;
  for_each_element<T>(batch, item, [&](T& element) {
    const Computed<T> product = loaded(element) * factor;
    finite &= elementwise::isfinite(product);
    element = stored<T>(product);
  });
  if (!finite) atomicMin(first, static_cast<unsigned long long>(batch.items[item].number));
}

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    clamp_kernel(const __grid_constant__ Batch batch, double limit) {
  const Computed<T> bound = static_cast<Computed<T>>(limit);
  for_each_element<T>(batch, batch.item_of(blockIdx.x), [&](T& element) {
    const Computed<T> x = loaded(element);
    element = stored<T>(x > bound ? bound : x < -bound ? -bound : x);
  });
}

}  // namespace

void power_sums(std::span<const Tensor> tensors, double p, const Tensor& sums) {
  const Device device = sums.device();
  sums.zero();
  const cuda_runtime::DeviceGuard guard(device);
  const cudaStream_t stream = cuda_runtime::current_stream(device);
  for_each_batch(tensors, [&]<class T>(TypeTag<T>, const Batch& batch) {
    const Tensor partials = Tensor::empty({int64_t{batch.blocks()}}, f64, device);
    double* values = static_cast<double*>(partials.raw_data());
    power_kernel<T><<<batch.blocks(), threads_per_block, 0, stream>>>(batch, p, values);
    cuda_runtime::check_launch("power_sums");
    power_total_kernel<<<batch.size, threads_per_block, 0, stream>>>(batch, p, values,
                                                                     static_cast<double*>(sums.raw_data()));
    cuda_runtime::check_launch("power_sums");
  });
}

void scale_list(std::span<const Tensor> tensors, const Tensor& factor, const Tensor& first_nonfinite,
                const Tensor&) {
  const Device device = first_nonfinite.device();
  const cuda_runtime::DeviceGuard guard(device);
  const cudaStream_t stream = cuda_runtime::current_stream(device);
  // All bits set: -1, and the largest unsigned number.
  cuda_runtime::check(cudaMemsetAsync(first_nonfinite.raw_data(), 0xff, sizeof(int64_t), stream),
                      "cudaMemsetAsync");
  const bool there = factor.device().is_cuda();
  for_each_batch(tensors, [&]<class T>(TypeTag<T>, const Batch& batch) {
    scale_kernel<T><<<batch.blocks(), threads_per_block, 0, stream>>>(
        batch, there ? static_cast<const double*>(factor.raw_data()) : nullptr, there ? 1.0 : factor.item(),
        static_cast<unsigned long long*>(first_nonfinite.raw_data()));
    cuda_runtime::check_launch("scale_in_place");
  });
}

void clamp_list(std::span<const Tensor> tensors, double limit) {
  for_each_batch(tensors, [&]<class T>(TypeTag<T>, const Batch& batch) {
    const Device device = tensors[batch.items[0].number].device();
    const cuda_runtime::DeviceGuard guard(device);
    clamp_kernel<T>
        <<<batch.blocks(), threads_per_block, 0, cuda_runtime::current_stream(device)>>>(batch, limit);
    cuda_runtime::check_launch("clamp_in_place");
  });
}

}  // namespace tessera::kernels::cuda
