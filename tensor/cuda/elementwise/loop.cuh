#pragma once  // internal

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/strided_loop.h"

/// The loop of every elementwise kernel: out[i] = f(in[i]...), operands of any strides, V elements per
/// thread.
namespace tessera::kernels::cuda {

/// Elements of a pack: 16 bytes of the widest operand.
template <class... T>
inline constexpr int pack_size = 16 / static_cast<int>(std::max({sizeof(T)...}));

/// What a kernel needs of a StridedLoop, in 32 bits: divisions of 64 bits take four times as long.
template <int N>
struct LoopExtents {
  int ndim;
  uint32_t extents[Shape::max_ndim];
  int64_t strides[N][Shape::max_ndim];
};

template <int V, class T>
__device__ __forceinline__ Pack<T, V> load_pack(const T* from, int64_t stride) {
  Pack<T, V> pack;
  if constexpr (V == 1) {
    pack.at[0] = *from;
  } else if (stride == 0) {  // broadcast along the innermost dimension
    const T element = *from;
#pragma unroll
    for (int i = 0; i < V; ++i) pack.at[i] = element;
  } else {
    pack = *reinterpret_cast<const Pack<T, V>*>(from);
  }
  return pack;
}

/// One pack per thread. With V > 1 the innermost extent is a multiple of V, or the only one, and its strides
/// are 1 or 0.
template <int V, class F, class Out, class... In, size_t... I>
__device__ __forceinline__ void compute_pack(const F& f, uint32_t first, uint32_t count,
                                             const LoopExtents<1 + sizeof...(In)>& loop, Out* out,
                                             std::index_sequence<I...>, const In*... in) {
  constexpr int operands = 1 + sizeof...(In);
  int64_t offsets[operands] = {};
  uint32_t rest = first;
  for (int d = loop.ndim - 1; d > 0; --d) {
    const uint32_t index = rest % loop.extents[d];
    rest /= loop.extents[d];
#pragma unroll
    for (int k = 0; k < operands; ++k) offsets[k] += index * loop.strides[k][d];
  }
#pragma unroll
  for (int k = 0; k < operands; ++k) offsets[k] += rest * loop.strides[k][0];
  const int inner = loop.ndim - 1;
  if (V == 1 || count >= V) {
    const auto packs = std::make_tuple(load_pack<V>(in + offsets[1 + I], loop.strides[1 + I][inner])...);
    Pack<Out, V> result;
#pragma unroll
    for (int i = 0; i < V; ++i) result.at[i] = f(std::get<I>(packs).at[i]...);
    *reinterpret_cast<Pack<Out, V>*>(out + offsets[0]) = result;
  } else {
    for (uint32_t i = 0; i < count; ++i)
      out[offsets[0] + i] = f(in[offsets[1 + I] + i * loop.strides[1 + I][inner]]...);
  }
}

template <int V, class F, class Out, class... In>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    elementwise_kernel(F f, uint32_t count, LoopExtents<1 + sizeof...(In)> loop, Out* out, const In*... in) {
  const uint64_t first = (static_cast<uint64_t>(blockIdx.x) * threads_per_block + threadIdx.x) * V;
  if (first >= count) return;
  compute_pack<V>(f, static_cast<uint32_t>(first), count - static_cast<uint32_t>(first), loop, out,
                  std::index_sequence_for<In...>(), in...);
}

/// Whether packs of `bytes` at `address` are aligned for every row of the loop.
template <int N>
bool packs_fit(const StridedLoop<N>& loop, int operand, const void* address, int element_bytes, int pack) {
  const int inner = loop.ndim - 1;
  if (loop.strides[operand][inner] == 0) return operand > 0;
  if (loop.strides[operand][inner] != 1) return false;
  if (reinterpret_cast<uintptr_t>(address) % (static_cast<size_t>(element_bytes) * pack) != 0) return false;
  for (int d = 0; d < inner; ++d)
    if (loop.strides[operand][d] % pack != 0) return false;
  return true;
}

/// Launches the loop for the part of `loop` that begins at the pointers; halves what has 2^31 elements and
/// more.
template <class F, class Out, class... In>
void launch_loop(const char* name, Device device, const F& f, const StridedLoop<1 + sizeof...(In)>& loop,
                 Out* out, const In*... in) {
  constexpr int operands = 1 + sizeof...(In), pack = pack_size<Out, In...>;
  int64_t count = 1;
  for (int d = 0; d < loop.ndim; ++d) count *= loop.extents[d];
  if (count == 0) return;
  if (count >= int64_t{1} << 31) {
    int widest = 0;
    for (int d = 1; d < loop.ndim; ++d)
      if (loop.extents[d] > loop.extents[widest]) widest = d;
    StridedLoop<operands> low = loop, high = loop;
    low.extents[widest] = loop.extents[widest] / 2;
    high.extents[widest] = loop.extents[widest] - low.extents[widest];
    launch_loop(name, device, f, low, out, in...);
    int k = 0;
    const int64_t skipped = low.extents[widest];
    out += skipped * loop.strides[0][widest];
    const std::tuple<const In*...> rest{(in + skipped * loop.strides[++k][widest])...};  // in order
    std::apply([&](const In*... from) { launch_loop(name, device, f, high, out, from...); }, rest);
    return;
  }
  LoopExtents<operands> extents{};
  extents.ndim = loop.ndim;
  for (int d = 0; d < loop.ndim; ++d) {
    extents.extents[d] = static_cast<uint32_t>(loop.extents[d]);
    for (int k = 0; k < operands; ++k) extents.strides[k][d] = loop.strides[k][d];
  }
  bool packed =
      pack > 1 && (loop.ndim == 1 || loop.inner() % pack == 0) && packs_fit(loop, 0, out, sizeof(Out), pack);
  int k = 0;
  ((packed = packed && packs_fit(loop, ++k, in, sizeof(In), pack)), ...);
  if (packed)
    launch(name, device, (count + pack - 1) / pack, [&](dim3 grid, dim3 block, cudaStream_t stream) {
      elementwise_kernel<pack, F, Out, In...>
          <<<grid, block, 0, stream>>>(f, static_cast<uint32_t>(count), extents, out, in...);
    });
  else
    launch(name, device, count, [&](dim3 grid, dim3 block, cudaStream_t stream) {
      elementwise_kernel<1, F, Out, In...>
          <<<grid, block, 0, stream>>>(f, static_cast<uint32_t>(count), extents, out, in...);
    });
}

/// out = f(in...), elementwise; the inputs have out's shape, and the dtypes of Out and In.
template <class Out, class... In, class F, class... Tensors>
void apply(const char* name, const F& f, const Tensor& out, const Tensors&... in) {
  static_assert(sizeof...(In) == sizeof...(Tensors));
  if (out.numel() == 0) return;
  const StridedLoop<1 + sizeof...(In)> loop(out.shape(), {&out.strides(), &in.strides()...});
  launch_loop(name, out.device(), f, loop, static_cast<Out*>(out.raw_data()),
              static_cast<const In*>(in.raw_data())...);
}

}  // namespace tessera::kernels::cuda
