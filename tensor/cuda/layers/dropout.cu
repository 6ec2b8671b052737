// A thread takes 16 bytes: elements that lie side by side share blocks of four random words. Read once,
// written once.
#include "tensor/cuda/layers/dropout.h"

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/layers/dropout.cuh"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

template <class T, int V>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    dropout_kernel(const __grid_constant__ DropoutArgument mask, const T* base, const T* x, int64_t count,
                   T* y) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x) * V;
  if (first >= count) return;
  Dropper dropper(mask, first);
  const auto result = [&](T value, T added) {
    const Computed<T> kept = dropper(loaded(value));
    return stored<T>(base != nullptr ? loaded(added) + kept : kept);
  };
  if (count - first >= V) {
    using Elements = Pack<T, V>;
    const Elements values = *reinterpret_cast<const Elements*>(x + first);
    const Elements added = base != nullptr ? *reinterpret_cast<const Elements*>(base + first) : Elements{};
    Elements results;
#pragma unroll
    for (int i = 0; i < V; ++i) results.at[i] = result(values.at[i], added.at[i]);
    *reinterpret_cast<Elements*>(y + first) = results;
  } else {
    for (int64_t i = first; i < count; ++i) y[i] = result(x[i], base != nullptr ? base[i] : T(0));
  }
}

bool is_aligned(const Tensor& tensor) {
  return !tensor.defined() || reinterpret_cast<uintptr_t>(tensor.raw_data()) % 16 == 0;
}

}  // namespace

void dropout(const Tensor& base, const Tensor& x, const ops::DropoutRows& rows, const Tensor& y) {
  const Device device = y.device();
  const DropoutMaskOnDevice mask(&rows, device);
  const bool packed = is_aligned(base) && is_aligned(x) && is_aligned(y);
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    constexpr int pack = 16 / static_cast<int>(sizeof(T));
    const T* const added = base.defined() ? static_cast<const T*>(base.raw_data()) : nullptr;
    const T* const from = static_cast<const T*>(x.raw_data());
    T* const to = static_cast<T*>(y.raw_data());
    const int64_t count = x.numel();
    launch("dropout", device, packed ? (count + pack - 1) / pack : count,
           [&](dim3 grid, dim3 block, cudaStream_t stream) {
             packed
                 ? dropout_kernel<T, pack>
                 <<<grid, block, 0, stream>>>(mask.argument(), added, from, count, to)
                 : dropout_kernel<T, 1><<<grid, block, 0, stream>>>(mask.argument(), added, from, count, to);
           });
  });
}

}  // namespace tessera::kernels::cuda
