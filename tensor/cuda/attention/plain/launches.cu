// The launches of the kernels on ordinary multiply-adds.
#include "tensor/cuda/attention/plain/launches.h"

#include "tensor/cuda/attention/launch.cuh"
#include "tensor/cuda/attention/plain/kernels.cuh"

namespace tessera::kernels::cuda::fused_attention {
namespace {

int tiles_of(int rows) {
  return (rows + tile - 1) / tile;
}

/// Calls `body.operator()<columns>(chunks)` with the columns of a block. f32 takes 128 where they are there:
/// twice the scores for as many bytes cost more.
template <class T, class Body>
void with_columns(int width, const Body& body) {
  if constexpr (std::is_same_v<T, float>)
    if (width > 64) return body.template operator()<128>((width + 127) / 128);
  body.template operator()<64>((width + 63) / 64);
}

}  // namespace

template <class T>
void plain_forward(const Forward<T>& call, int64_t batch, Device device) {
  const Weights<Computed<T>>& weights = call.weights;
  const int tiles = tiles_of(weights.queries);
  with_columns<T>(weights.width, [&]<int columns>(int chunks) {
    launch_blocks("attention", device, &plain_forward_kernel<T, columns>,
                  batch * weights.heads * tiles * chunks, product_threads, sizeof(PlainMemory<T, columns>),
                  call, tiles, chunks);
  });
}

template <class T>
void plain_backward(const Backward<T>& call, int64_t batch, Device device) {
  const Weights<Computed<T>>& weights = call.weights;
  const int query_tiles = tiles_of(weights.queries), key_tiles = tiles_of(weights.keys);
  with_columns<T>(weights.width, [&]<int columns>(int chunks) {
    launch_blocks("attention_backward", device, &plain_query_gradient_kernel<T, columns>,
                  batch * weights.heads * query_tiles * chunks, product_threads,
                  sizeof(PlainMemory<T, columns>), call, query_tiles, chunks);
    launch_blocks("attention_backward", device, &plain_key_gradient_kernel<T, columns>,
                  batch * (weights.heads / weights.group) * key_tiles * chunks, product_threads,
                  sizeof(PlainMemory<T, columns>), call, key_tiles, chunks);
  });
}

#define TESSERA_PLAIN_ATTENTION(T)                                    \
  template void plain_forward<T>(const Forward<T>&, int64_t, Device); \
  template void plain_backward<T>(const Backward<T>&, int64_t, Device);
TESSERA_PLAIN_ATTENTION(double)
TESSERA_PLAIN_ATTENTION(float)
TESSERA_PLAIN_ATTENTION(bfloat16)
TESSERA_PLAIN_ATTENTION(float16)

}  // namespace tessera::kernels::cuda::fused_attention
