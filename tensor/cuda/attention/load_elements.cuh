#pragma once  // internal

#include "tensor/cuda/attention/arguments.cuh"

namespace tessera::kernels::cuda::fused_attention {

/// V elements of a row from column d on; zeros beyond `width`.
template <int V, class T>
__device__ __forceinline__ void load_elements(const T* row, int d, int width, bool packed,
                                              Computed<T> (&out)[V]) {
  if (packed && d + V <= width) {
    const Pack<T, V> elements = *reinterpret_cast<const Pack<T, V>*>(row + d);
#pragma unroll
    for (int e = 0; e < V; ++e) out[e] = loaded(elements.at[e]);
  } else {
#pragma unroll
    for (int e = 0; e < V; ++e) out[e] = d + e < width ? loaded(row[d + e]) : Computed<T>(0);
  }
}

}  // namespace tessera::kernels::cuda::fused_attention
