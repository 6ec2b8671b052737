#include "tensor/cuda/elementwise/shaping.h"

#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/cuda/indexing/index.cuh"
#include "tensor/cuda/runtime/launch.h"

namespace tessera::kernels::cuda {
namespace {

template <class T>
struct Same {
  static constexpr int side_by_side = short_function;
  __device__ T operator()(T x) const { return x; }
};

/// V neighbouring elements to a thread; both tensors are contiguous.
template <class T, int V>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    triangle_kernel(const Pack<T, V>* x, int64_t packs, int64_t rows, int64_t columns, int64_t diagonal,
                    bool lower, Pack<T, V>* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= packs) return;
  int64_t column = i * V % columns, row = i * V / columns % rows;
  Pack<T, V> pack = x[i];
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const bool kept = lower ? column - row <= diagonal : column - row >= diagonal;
    if (!kept) pack.at[k] = T(0);
    if (++column == columns) column = 0, row = row + 1 == rows ? 0 : row + 1;
  }
  out[i] = pack;
}

template <class T, int V>
void triangle_of_packs(const Tensor& x, int64_t diagonal, bool lower, const Tensor& out) {
  const int64_t packs = x.numel() / V;
  launch("triangle", x.device(), packs, [&](dim3 grid, dim3 block, cudaStream_t stream) {
    triangle_kernel<T, V><<<grid, block, 0, stream>>>(static_cast<const Pack<T, V>*>(x.raw_data()), packs,
                                                      x.size(-2), x.size(-1), diagonal, lower,
                                                      static_cast<Pack<T, V>*>(out.raw_data()));
  });
}

}  // namespace

void flip(const Tensor& x, unsigned dims, const Tensor& out) {
  if (out.numel() == 0) return;
  // A reversed dimension has a negative stride and starts at its last element.
  Strides mirrored = x.strides();
  int64_t start = 0;
  for (int i = 0; i < x.ndim(); ++i) {
    if (!(dims >> i & 1u)) continue;
    start += (x.shape()[i] - 1) * mirrored[i];
    mirrored[i] = -mirrored[i];
  }
  const int64_t bytes = size_of(x.dtype());
  const LoopView views[] = {{out.raw_data(), bytes, &out.strides()},
                            {static_cast<char*>(x.raw_data()) + start * bytes, bytes, &mirrored}};
  by_width(x.dtype(), [&]<class T>(T) {
    const Same<T> same;
    launch_loop("flip", loop_kernel<Same<T>, T, T>(), &same, out.device(), out.shape(), views, 2);
  });
}

void triangle(const Tensor& x, int64_t diagonal, bool lower, const Tensor& out) {
  if (out.numel() == 0) return;
  by_width(x.dtype(), [&]<class T>(T) {
    constexpr int V = 16 / static_cast<int>(sizeof(T));
    const bool packed = x.numel() % V == 0 && reinterpret_cast<uintptr_t>(x.raw_data()) % 16 == 0 &&
                        reinterpret_cast<uintptr_t>(out.raw_data()) % 16 == 0;
    packed ? triangle_of_packs<T, V>(x, diagonal, lower, out)
           : triangle_of_packs<T, 1>(x, diagonal, lower, out);
  });
}

}  // namespace tessera::kernels::cuda
