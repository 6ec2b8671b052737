// The launches of backward on tensor cores.
#include "tensor/cuda/attention/launch.cuh"
#include "tensor/cuda/attention/tensor_core/key_gradient.cuh"
#include "tensor/cuda/attention/tensor_core/launches.h"
#include "tensor/cuda/attention/tensor_core/query_gradient.cuh"
#include "tensor/cuda/attention/tensor_core/widths.h"

namespace tessera::kernels::cuda::fused_attention {

template <class T>
void flash_backward(const Backward<T>& call, int64_t batch, Device device) {
  const Weights<float>& weights = call.weights;
  with_kernel(weights, [&]<int width, bool extras>() {
    using Query = FlashQueryGradient<T, width, extras>;
    const int query_tiles = (weights.queries + Query::queries - 1) / Query::queries;
    launch_blocks("attention_backward", device, &flash_query_gradient_kernel<T, width, extras>,
                  batch * weights.heads * query_tiles, flash_threads, sizeof(typename Query::Memory), call,
                  query_tiles);
    using Key = FlashKeyGradient<T, width, extras>;
    const int key_tiles = (weights.keys + Key::keys - 1) / Key::keys;
    launch_blocks("attention_backward", device, &flash_key_gradient_kernel<T, width, extras>,
                  batch * (weights.heads / weights.group) * key_tiles, flash_threads,
                  sizeof(typename Key::Memory), call, key_tiles);
  });
}

template void flash_backward<bfloat16>(const Backward<bfloat16>&, int64_t, Device);
template void flash_backward<float16>(const Backward<float16>&, int64_t, Device);

}  // namespace tessera::kernels::cuda::fused_attention
