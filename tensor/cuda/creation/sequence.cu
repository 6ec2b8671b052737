#include "tensor/cuda/creation/sequence.h"

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/indexing/index.cuh"
#include "tensor/cuda/indexing/indexing.h"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    sequence_kernel(ops::Sequence sequence, T* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= sequence.count) return;
  if constexpr (std::is_integral_v<T>)
    out[i] = static_cast<T>(sequence.integer(i));
  else
    out[i] = stored<T>(sequence.real(i));
}

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    one_hot_kernel(IndexValues ids, int64_t count, int64_t classes, T one, T* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= count) return;
  const int64_t id = ids[i];
  if (id >= 0 && id < classes) out[i * classes + id] = one;
}

}  // namespace

void fill_sequence(const ops::Sequence& sequence, const Tensor& out) {
  with_any(out.dtype(), [&]<class T>(TypeTag<T>) {
    launch("arange", out.device(), sequence.count, [&](dim3 grid, dim3 block, cudaStream_t stream) {
      sequence_kernel<T><<<grid, block, 0, stream>>>(sequence, static_cast<T*>(out.raw_data()));
    });
  });
}

void one_hot(const Tensor& ids, int64_t classes, const Tensor& out) {
  check_indices("one_hot", ids, classes);
  by_width(out.dtype(), [&]<class T>(T) {
    T one = 0;
    (out.dtype() == boolean ? Scalar(true) : Scalar(1)).write(out.dtype(), &one, "one_hot");
    launch("one_hot", out.device(), ids.numel(), [&](dim3 grid, dim3 block, cudaStream_t stream) {
      one_hot_kernel<T><<<grid, block, 0, stream>>>(IndexValues(ids), ids.numel(), classes, one,
                                                    static_cast<T*>(out.raw_data()));
    });
  });
}

}  // namespace tessera::kernels::cuda
