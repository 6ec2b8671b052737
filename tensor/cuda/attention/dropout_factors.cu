// The factors of dropout, stored: for tests and second derivatives.
#include "tensor/cuda/attention/arguments.cuh"
#include "tensor/cuda/attention/attention.h"
#include "tensor/cuda/attention/call_weights.h"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/random/philox.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

using namespace fused_attention;

/// A thread has the four elements of a Philox block of a sample, which has `size` elements in `blocks`
/// blocks. Traffic: each factor is written once, 16 bytes at a time where a sample is a multiple of four
/// elements.
template <class A>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    factors_kernel(Dropout dropout, A kept, const __grid_constant__ SampleNumbers samples, int64_t batch,
                   int64_t size, int64_t blocks, A* factors) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (thread >= batch * blocks) return;
  const int64_t b = thread / blocks, block = thread % blocks;
  const uint32_t sample = samples.empty() ? static_cast<uint32_t>(b) : samples[static_cast<int>(b)];
  const elementwise::PhiloxBlock bits =
      elementwise::random_block(dropout.key, static_cast<uint64_t>(block), sample, dropout.step);
  Pack<A, 4> values;
#pragma unroll
  for (int i = 0; i < 4; ++i) values.at[i] = bits.word[i] < dropout.threshold ? A(0) : kept;
  A* const out = factors + b * size + 4 * block;
  if (size % 4 == 0) {
    constexpr int pack = 16 / sizeof(A);
#pragma unroll
    for (int i = 0; i < 4; i += pack)
      *reinterpret_cast<Pack<A, pack>*>(out + i) = *reinterpret_cast<const Pack<A, pack>*>(values.at + i);
  } else {
    for (int i = 0; i < 4 && 4 * block + i < size; ++i) out[i] = values.at[i];
  }
}

template <class A>
void fill_factors(const Tensor& factors, double dropout, uint64_t key, int64_t step,
                  std::span<const int64_t> samples) {
  std::vector<Tensor> uploaded;
  const Device device = factors.device();
  const int64_t batch = factors.size(0), size = factors.numel() / batch, blocks = (size + 3) / 4;
  const SampleNumbers numbers = sample_numbers(samples, device, uploaded);
  launch("attention_dropout", device, batch * blocks, [&](dim3 grid, dim3 block, cudaStream_t stream) {
    factors_kernel<A><<<grid, block, 0, stream>>>(Dropout(dropout, key, step),
                                                  static_cast<A>(1.0 / (1.0 - dropout)), numbers, batch, size,
                                                  blocks, static_cast<A*>(factors.raw_data()));
  });
}

}  // namespace

void attention_dropout(const Tensor& factors, double dropout, uint64_t key, int64_t step,
                       std::span<const int64_t> samples) {
  if (factors.numel() == 0) return;
  factors.dtype() == f64 ? fill_factors<double>(factors, dropout, key, step, samples)
                         : fill_factors<float>(factors, dropout, key, step, samples);
}

}  // namespace tessera::kernels::cuda
