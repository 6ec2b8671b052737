// The launches of forward on tensor cores.
#include "tensor/cuda/attention/tensor_core/forward.cuh"

#include "tensor/cuda/attention/launch.cuh"
#include "tensor/cuda/attention/tensor_core/launches.h"
#include "tensor/cuda/attention/tensor_core/widths.h"

namespace tessera::kernels::cuda::fused_attention {

template <class T>
void flash_forward(const Forward<T>& call, int64_t batch, Device device) {
  with_kernel(call.weights, [&]<int width, bool extras>() {
    using Shape = FlashForward<T, width, extras>;
    const int tiles = (call.weights.queries + Shape::queries - 1) / Shape::queries;
    launch_blocks("attention", device, &flash_forward_kernel<T, width, extras>,
                  batch * call.weights.heads * tiles, flash_threads, sizeof(typename Shape::Memory), call,
                  tiles);
  });
}

template void flash_forward<bfloat16>(const Forward<bfloat16>&, int64_t, Device);
template void flash_forward<float16>(const Forward<float16>&, int64_t, Device);

}  // namespace tessera::kernels::cuda::fused_attention
