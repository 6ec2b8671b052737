// A sum reads x and target once: each block adds up a range of elements, and one block adds the blocks' sums,
// in f64.
#include "tensor/elementwise/elementwise_loss.h"

#include <algorithm>

#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/cuda/losses/elementwise_loss.h"
#include "tensor/cuda/reduction/block_reduce.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int64_t most_blocks = 1024;

template <class Function, class T>
struct Value {
  static constexpr int side_by_side = frequent_function;
  Computed<T> p;
  __device__ T operator()(T x, T target) const {
    return stored<T>(Function::value(loaded(x), loaded(target), p));
  }
};

template <class Function, class T>
struct Gradient {
  static constexpr int side_by_side = frequent_function;
  Computed<T> p, scale;
  __device__ T operator()(T x, T target, T dloss) const {
    return stored<T>((scale * loaded(dloss)) * Function::slope(loaded(x), loaded(target), p));
  }
};

/// Threads of all blocks take the elements in turn, each adding up its own in the type of the losses.
template <class Function, class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    partial_kernel(Computed<T> p, const T* x, const T* target, int64_t count, double* partials) {
  __shared__ double scratch[32];
  double sum = 0;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * threads_per_block;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x; i < count; i += stride)
    sum += static_cast<double>(Function::value(loaded(x[i]), loaded(target[i]), p));
  sum = block_reduce(sum, scratch, Add());
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    total_kernel(const double* partials, int64_t count, double scale, T* out) {
  __shared__ double scratch[32];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += threads_per_block) sum += partials[i];
  sum = block_reduce(sum, scratch, Add());
  if (threadIdx.x == 0) *out = stored<T>(static_cast<Computed<T>>(sum * scale));
}

template <class Function>
struct FunctionTag {
  using type = Function;
};

/// Calls `body` with the tag of the kind's struct.
template <class Body>
void of_kind(ElementwiseLossKind kind, const Body& body) {
#define TESSERA_CASE(name)        \
  case ElementwiseLossKind::name: \
    return body(FunctionTag<elementwise::loss_##name>());
  switch (kind) {
    TESSERA_CASE(l1_loss)
    TESSERA_CASE(mse_loss)
    TESSERA_CASE(huber_loss)
    TESSERA_CASE(smooth_l1_loss)
    TESSERA_CASE(bce_with_logits)
    TESSERA_CASE(binary_cross_entropy)
  }
#undef TESSERA_CASE
}

}  // namespace

void elementwise_losses(const ElementwiseLoss& f, const Tensor& x, const Tensor& target, const Tensor& out) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    of_kind(f.kind, [&]<class Function>(FunctionTag<Function>) {
      apply<T, T, T>(name_of(f.kind), Value<Function, T>{static_cast<Computed<T>>(f.p)}, out, x, target);
    });
  });
}

void elementwise_loss_sum(const ElementwiseLoss& f, double scale, const Tensor& x, const Tensor& target,
                          const Tensor& out) {
  const Device device = x.device();
  const int64_t count = x.numel(),
                blocks = std::min(most_blocks, (count + threads_per_block - 1) / threads_per_block);
  const Tensor partials = Tensor::empty({blocks}, f64, device);
  double* const sums = static_cast<double*>(partials.raw_data());
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    of_kind(f.kind, [&]<class Function>(FunctionTag<Function>) {
      launch(name_of(f.kind), device, blocks * threads_per_block,
             [&](dim3 grid, dim3 block, cudaStream_t stream) {
               partial_kernel<Function, T><<<grid, block, 0, stream>>>(
                   static_cast<Computed<T>>(f.p), static_cast<const T*>(x.raw_data()),
                   static_cast<const T*>(target.raw_data()), count, sums);
             });
    });
    launch(name_of(f.kind), device, threads_per_block, [&](dim3 grid, dim3 block, cudaStream_t stream) {
      total_kernel<T><<<grid, block, 0, stream>>>(sums, blocks, scale, static_cast<T*>(out.raw_data()));
    });
  });
}

void elementwise_loss_backward(const ElementwiseLoss& f, double scale, const Tensor& dloss, const Tensor& x,
                               const Tensor& target, const Tensor& dx) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using A = Computed<T>;
    of_kind(f.kind, [&]<class Function>(FunctionTag<Function>) {
      apply<T, T, T, T>(name_of(f.kind), Gradient<Function, T>{static_cast<A>(f.p), static_cast<A>(scale)},
                        dx, x, target, dloss);
    });
  });
}

}  // namespace tessera::kernels::cuda
