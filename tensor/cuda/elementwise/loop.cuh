#pragma once  // internal

#include <cstdint>
#include <type_traits>
#include <utility>

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/elementwise/launch_loop.h"
#include "tensor/cuda/runtime/block_size.h"

/// The loop of every elementwise kernel: out[i] = f(in[i]...), or (a[i], b[i]) = f(in[i]...), operands of any
/// strides. A thread computes a pack where the host found packs to fit (launch_loop.h), else one element.
///
/// A kernel costs compile time by its copies of f. So a step of the loop over a pack computes one element,
/// unless the functor names more, `side_by_side`: a pack moves through its registers by a step's elements.
namespace tessera::kernels::cuda {

/// The elements of both results of a functor that has two.
template <class T>
struct ElementPair {
  T first, second;
};

/// `side_by_side` of functions of a few instructions, and of those that a training step spends time in.
/// @{
inline constexpr int short_function = 8;
inline constexpr int frequent_function = 2;
/// @}

/// Elements of a pack: 16 bytes of the widest operand.
template <class... T>
constexpr int pack_of() {
  size_t widest = 1;
  ((widest = sizeof(T) > widest ? sizeof(T) : widest), ...);
  return static_cast<int>(16 / widest);
}

/// Elements of a step over packs of V.
template <class F, int V>
constexpr int step_of() {
  if constexpr (requires { F::side_by_side; })
    return F::side_by_side < V ? F::side_by_side : V;
  else
    return 1;
}

/// Moves elements `step`... of a pack to the places 0...; what the last `step` places hold is not specified.
template <int step, class T, int V>
__device__ __forceinline__ void advance(Pack<T, V>& pack) {
  constexpr int words = static_cast<int>(sizeof(T)) * V / 4, bits = static_cast<int>(sizeof(T)) * step * 8;
  if constexpr (sizeof(T) >= 4 || words == 0) {
#pragma unroll
    for (int i = 0; i + step < V; ++i) pack.at[i] = pack.at[i + step];
  } else {
    struct Words {
      uint32_t at[words];
    };
    Words from = __builtin_bit_cast(Words, pack);
#pragma unroll
    for (int i = 0; i < words; ++i) {
      const int low = i + bits / 32, high = low + 1;
      if constexpr (bits % 32 == 0)
        from.at[i] = low < words ? from.at[low] : 0;
      else
        from.at[i] = __funnelshift_r(from.at[low], high < words ? from.at[high] : 0, bits % 32);
    }
    pack = __builtin_bit_cast(Pack<T, V>, from);
  }
}

/// An operand as a thread sees it: the place of its first element, and a pack.
template <class T, int V>
struct Operand {
  char* place;
  int64_t stride;  ///< bytes from an element to the next
  Pack<T, V> pack;

  __device__ __forceinline__ T& element(uint32_t i) const {
    return *reinterpret_cast<T*>(place + i * stride);
  }
  __device__ __forceinline__ void load() {
    if (stride == 0) {  // broadcast along the innermost dimension
      const T element = *reinterpret_cast<const T*>(place);
#pragma unroll
      for (int i = 0; i < V; ++i) pack.at[i] = element;
    } else {
      pack = *reinterpret_cast<const Pack<T, V>*>(place);
    }
  }
  __device__ __forceinline__ void store() const {
    *reinterpret_cast<Pack<T, V>*>(place) = pack;
  }
};

/// One result, or two.
template <class Out, int V>
struct Results {
  Operand<Out, V> at[1];
  __device__ __forceinline__ void put(int i, Out value) { at[0].pack.at[i] = value; }
  __device__ __forceinline__ void write(uint32_t i, Out value) const { at[0].element(i) = value; }
};
template <class Out, int V>
struct Results<ElementPair<Out>, V> {
  Operand<Out, V> at[2];
  __device__ __forceinline__ void put(int i, ElementPair<Out> value) {
    at[0].pack.at[i] = value.first;
    at[1].pack.at[i] = value.second;
  }
  __device__ __forceinline__ void write(uint32_t i, ElementPair<Out> value) const {
    at[0].element(i) = value.first;
    at[1].element(i) = value.second;
  }
};

/// Out is the type of f's results: an element, or an ElementPair.
template <int V, class F, class Out, int N, class... In>
__device__ __forceinline__ void compute_elements(const F& f, const LoopArguments<N>& loop,
                                                 Results<Out, V> results, Operand<In, V>... in) {
  constexpr int step = step_of<F, V>(), outputs = N - static_cast<int>(sizeof...(In));
  const uint64_t first =
      (static_cast<uint64_t>(blockIdx.x) * threads_per_block + threadIdx.x) * (loop.packed ? V : 1);
  if (first >= loop.count) return;
  int64_t offsets[N] = {};
  auto rest = static_cast<uint32_t>(first);
#pragma unroll 1
  for (int d = loop.ndim - 1; d > 0; --d) {
    const uint32_t index = rest % loop.extents[d];
    rest /= loop.extents[d];
#pragma unroll
    for (int k = 0; k < N; ++k) offsets[k] += index * loop.operands[k].strides[d];
  }
  const auto begin = [&](auto& operand, int k) {
    operand.place = loop.operands[k].data + offsets[k] + rest * loop.operands[k].strides[0];
    operand.stride = loop.operands[k].strides[loop.ndim - 1];
  };
  int k = 0;
#pragma unroll
  for (; k < outputs; ++k) begin(results.at[k], k);
  (begin(in, k++), ...);

  const uint32_t left = loop.count - static_cast<uint32_t>(first);
  const uint32_t count = !loop.packed ? 1 : left < V ? left : V;
  const bool whole = loop.packed && count == V;
  if (whole) (in.load(), ...);
  if constexpr (step == 1) {
#pragma unroll 1
    for (uint32_t i = 0; i < count; ++i) {
      const Out value = f((whole ? in.pack.at[0] : in.element(i))...);
      if (whole) {
        (advance<1>(in.pack), ...);
#pragma unroll
        for (auto& result : results.at) advance<1>(result.pack);
        results.put(V - 1, value);
      } else {
        results.write(i, value);
      }
    }
  } else if (whole) {
#pragma unroll 1
    for (int i = 0; i < V; i += step) {
      Out values[step];
#pragma unroll
      for (int j = 0; j < step; ++j) values[j] = f(in.pack.at[j]...);
      (advance<step>(in.pack), ...);
#pragma unroll
      for (auto& result : results.at) advance<step>(result.pack);
#pragma unroll
      for (int j = 0; j < step; ++j) results.put(V - step + j, values[j]);
    }
  } else {
#pragma unroll 1
    for (uint32_t i = 0; i < count; ++i) results.write(i, f(in.element(i)...));
  }
  if (whole) {
#pragma unroll
    for (const auto& result : results.at) result.store();
  }
}

template <class F, class Out, class... In>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    elementwise_kernel(const __grid_constant__ F f,
                       const __grid_constant__ LoopArguments<1 + sizeof...(In)> loop) {
  constexpr int V = pack_of<Out, In...>();
  compute_elements<V>(f, loop, Results<Out, V>(), Operand<In, V>()...);
}

template <class F, class Out, class... In>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    pair_kernel(const __grid_constant__ F f, const __grid_constant__ LoopArguments<2 + sizeof...(In)> loop) {
  constexpr int V = pack_of<Out, In...>();
  compute_elements<V>(f, loop, Results<ElementPair<Out>, V>(), Operand<In, V>()...);
}

/// The kernel of out = f(in...).
template <class F, class Out, class... In>
LoopKernel loop_kernel() {
  return {reinterpret_cast<const void*>(&elementwise_kernel<F, Out, In...>), pack_of<Out, In...>(), 1};
}

/// out = f(in...), elementwise; the inputs have out's shape, and the dtypes of Out and In.
template <class Out, class... In, class F, class... Tensors>
void apply(const char* name, const F& f, const Tensor& out, const Tensors&... in) {
  static_assert(sizeof...(In) == sizeof...(Tensors));
  launch_loop(name, loop_kernel<F, Out, In...>(), &f, {&out, &in...});
}

/// (a, b) = f(in...), elementwise; all tensors have one shape, a and b the dtype of Out, the others that of
/// In. No result overlaps an operand, unless it is that operand.
template <class Out, class... In, class F, class... Tensors>
void apply_pair(const char* name, const F& f, const Tensor& a, const Tensor& b, const Tensors&... in) {
  static_assert(sizeof...(In) == sizeof...(Tensors));
  const LoopKernel kernel = {reinterpret_cast<const void*>(&pair_kernel<F, Out, In...>),
                             pack_of<Out, In...>(), 2};
  launch_loop(name, kernel, &f, {&a, &b, &in...});
}

}  // namespace tessera::kernels::cuda
