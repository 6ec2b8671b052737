// A thread computes the four elements of a Philox block.
#include "tensor/cuda/creation/random.h"

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/elementwise/erf.h"
#include "tensor/random/philox.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

using ops::Distribution;
using Kind = Distribution::Kind;

/// A distribution as the kernel takes it.
struct Draw {
  Kind kind;
  double location, scale, low, high;
  double cumulative_low, cumulative_high;  ///< of a truncated normal's bounds
  uint64_t threshold;                      ///< of a Bernoulli event
  bool fine;                               ///< uniform values of 53 bits
  uint64_t key;
};

__device__ void draw_block(const Draw& draw, uint64_t block, double (&values)[4]) {
  const elementwise::PhiloxBlock bits = elementwise::random_block(draw.key, block, 0, 0);
  switch (draw.kind) {
    case Kind::uniform:
      if (draw.fine) {
        const elementwise::PhiloxBlock low = elementwise::random_low_block(draw.key, block, 0, 0);
        for (int i = 0; i < 4; ++i)
          values[i] = elementwise::fma(elementwise::uniform_f64(bits.word[i], low.word[i]), draw.scale,
                                       draw.location);
      } else {
        for (int i = 0; i < 4; ++i)
          values[i] = elementwise::fma(static_cast<double>(elementwise::uniform_f32(bits.word[i])),
                                       draw.scale, draw.location);
      }
      return;
    case Kind::normal:
      for (int i = 0; i < 4; i += 2) {
        const elementwise::NormalPair pair = elementwise::normal_pair(bits.word[i], bits.word[i + 1]);
        values[i] = elementwise::fma(pair.first, draw.scale, draw.location);
        values[i + 1] = elementwise::fma(pair.second, draw.scale, draw.location);
      }
      return;
    case Kind::truncated_normal:
      for (int i = 0; i < 4; ++i) {
        const double z = elementwise::truncated_normal(bits.word[i], draw.low, draw.high, draw.cumulative_low,
                                                       draw.cumulative_high);
        values[i] = elementwise::fma(z, draw.scale, draw.location);
      }
      return;
    case Kind::bernoulli:
      for (int i = 0; i < 4; ++i)
        values[i] = elementwise::bernoulli(bits.word[i], draw.threshold) ? 1.0 : 0.0;
  }
}

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    fill_kernel(Draw draw, int64_t first_index, int64_t count, T* out) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  const int64_t block = first_index / 4 + thread;
  const int64_t begin = 4 * block - first_index;  // of the block's first element in out; may lie before it
  if (begin >= count) return;
  double values[4];
  draw_block(draw, static_cast<uint64_t>(block), values);
  for (int i = 0; i < 4; ++i) {
    const int64_t at = begin + i;
    if (at >= 0 && at < count) out[at] = stored<T>(values[i]);
  }
}

double normal_cumulative(double x) {
  return 0.5 * elementwise::erfc(-x * 0.70710678118654752440);
}

}  // namespace

void fill_random(const Distribution& d, uint64_t key, int64_t first_index, const Tensor& out) {
  const bool truncated = d.kind == Kind::truncated_normal;
  const Draw draw = {d.kind,
                     d.location,
                     d.scale,
                     d.low,
                     d.high,
                     truncated ? normal_cumulative(d.low) : 0.0,
                     truncated ? normal_cumulative(d.high) : 0.0,
                     d.kind == Kind::bernoulli ? elementwise::bernoulli_threshold(d.location) : 0,
                     d.kind == Kind::uniform && out.dtype() == f64,
                     key};
  const int64_t blocks = (first_index + out.numel() + 3) / 4 - first_index / 4;
  with_any(out.dtype(), [&]<class Given>(TypeTag<Given>) {
    using T = std::conditional_t<std::is_same_v<Given, bool>, Boolean, Given>;
    launch("random numbers", out.device(), blocks, [&](dim3 grid, dim3 block, cudaStream_t stream) {
      fill_kernel<T>
          <<<grid, block, 0, stream>>>(draw, first_index, out.numel(), static_cast<T*>(out.raw_data()));
    });
  });
}

}  // namespace tessera::kernels::cuda
