#pragma once  // internal

#include <tuple>

#include "tensor/cuda/elementwise/loop.cuh"

/// The loop of elementwise kernels with two results, which read their operands once: (a[i], b[i]) =
/// f(in[i]...).
namespace tessera::kernels::cuda {

/// The elements of both results.
template <class T>
struct ElementPair {
  T first, second;
};

/// One pack of each result per thread, as compute_pack.
template <int V, class F, class Out, class... In, size_t... I>
__device__ __forceinline__ void compute_pack_pair(const F& f, uint32_t first, uint32_t count,
                                                  const LoopExtents<2 + sizeof...(In)>& loop, Out* a, Out* b,
                                                  std::index_sequence<I...>, const In*... in) {
  constexpr int operands = 2 + sizeof...(In);
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
    const auto packs = std::make_tuple(load_pack<V>(in + offsets[2 + I], loop.strides[2 + I][inner])...);
    Pack<Out, V> firsts, seconds;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const ElementPair<Out> both = f(std::get<I>(packs).at[i]...);
      firsts.at[i] = both.first;
      seconds.at[i] = both.second;
    }
    *reinterpret_cast<Pack<Out, V>*>(a + offsets[0]) = firsts;
    *reinterpret_cast<Pack<Out, V>*>(b + offsets[1]) = seconds;
  } else {
    for (uint32_t i = 0; i < count; ++i) {
      const ElementPair<Out> both = f(in[offsets[2 + I] + i * loop.strides[2 + I][inner]]...);
      a[offsets[0] + i] = both.first;
      b[offsets[1] + i] = both.second;
    }
  }
}

template <int V, class F, class Out, class... In>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    pair_kernel(F f, uint32_t count, LoopExtents<2 + sizeof...(In)> loop, Out* a, Out* b, const In*... in) {
  const uint64_t first = (static_cast<uint64_t>(blockIdx.x) * threads_per_block + threadIdx.x) * V;
  if (first >= count) return;
  compute_pack_pair<V>(f, static_cast<uint32_t>(first), count - static_cast<uint32_t>(first), loop, a, b,
                       std::index_sequence_for<In...>(), in...);
}

/// Launches the loop from the pointers on; halves what has 2^31 elements and more.
template <class F, class Out, class... In>
void launch_pair_loop(const char* name, Device device, const F& f, const StridedLoop<2 + sizeof...(In)>& loop,
                      Out* a, Out* b, const In*... in) {
  constexpr int operands = 2 + sizeof...(In), pack = pack_size<Out, In...>;
  int64_t count = 1;
  int widest = 0;
  for (int d = 0; d < loop.ndim; ++d) {
    count *= loop.extents[d];
    if (loop.extents[d] > loop.extents[widest]) widest = d;
  }
  if (count == 0) return;
  if (count >= int64_t{1} << 31) {
    StridedLoop<operands> low = loop, high = loop;
    const int64_t skipped = low.extents[widest] = loop.extents[widest] / 2;
    high.extents[widest] -= skipped;
    launch_pair_loop(name, device, f, low, a, b, in...);
    int k = 1;
    const std::tuple<const In*...> rest{(in + skipped * loop.strides[++k][widest])...};  // in order
    std::apply(
        [&](const In*... from) {
          launch_pair_loop(name, device, f, high, a + skipped * loop.strides[0][widest],
                           b + skipped * loop.strides[1][widest], from...);
        },
        rest);
    return;
  }
  LoopExtents<operands> extents{};
  extents.ndim = loop.ndim;
  for (int d = 0; d < loop.ndim; ++d) {
    extents.extents[d] = static_cast<uint32_t>(loop.extents[d]);
    for (int k = 0; k < operands; ++k) extents.strides[k][d] = loop.strides[k][d];
  }
  bool packed = pack > 1 && (loop.ndim == 1 || loop.inner() % pack == 0) &&
                loop.strides[1][loop.ndim - 1] == 1 && packs_fit(loop, 0, a, sizeof(Out), pack) &&
                packs_fit(loop, 1, b, sizeof(Out), pack);
  int k = 1;
  ((packed = packed && packs_fit(loop, ++k, in, sizeof(In), pack)), ...);
  if (packed)
    launch(name, device, (count + pack - 1) / pack, [&](dim3 grid, dim3 block, cudaStream_t stream) {
      pair_kernel<pack, F, Out, In...>
          <<<grid, block, 0, stream>>>(f, static_cast<uint32_t>(count), extents, a, b, in...);
    });
  else
    launch(name, device, count, [&](dim3 grid, dim3 block, cudaStream_t stream) {
      pair_kernel<1, F, Out, In...>
          <<<grid, block, 0, stream>>>(f, static_cast<uint32_t>(count), extents, a, b, in...);
    });
}

/// (a, b) = f(in...), elementwise; all tensors have one shape, a and b the dtype of Out, the others that of
/// In. No result overlaps an operand, unless it is that operand.
template <class Out, class... In, class F, class... Tensors>
void apply_pair(const char* name, const F& f, const Tensor& a, const Tensor& b, const Tensors&... in) {
  static_assert(sizeof...(In) == sizeof...(Tensors));
  if (a.numel() == 0) return;
  const StridedLoop<2 + sizeof...(In)> loop(a.shape(), {&a.strides(), &b.strides(), &in.strides()...});
  launch_pair_loop(name, a.device(), f, loop, static_cast<Out*>(a.raw_data()),
                   static_cast<Out*>(b.raw_data()), static_cast<const In*>(in.raw_data())...);
}

}  // namespace tessera::kernels::cuda
