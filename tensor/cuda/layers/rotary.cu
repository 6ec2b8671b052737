// A thread computes an angle once, its cosine and sine in f64, and turns that pair in every head.
#include "tensor/cuda/layers/rotary.h"

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/runtime/host_values.cuh"
#include "tensor/elementwise/power.h"
#include "tensor/elementwise/trigonometric.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

/// Where the elements of a head lie.
struct HeadLayout {
  int64_t row, head, time;
  explicit HeadLayout(const Tensor& x) : row(x.strides()[0]), head(x.strides()[1]), time(x.strides()[2]) {}
};

template <class T>
struct Rotation {
  HostValues<int64_t> first_positions;
  const T* x;
  T* y;
  HeadLayout from, to;
  int64_t rows, heads, time, width, pairs;
  double base;
  bool neighbours, inverse;
};

/// A thread for each row, position and pair, and for each element that does not turn.
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    rotate_kernel(const __grid_constant__ Rotation<T> r) {
  using A = Computed<T>;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  const int64_t columns = r.width - r.pairs;
  if (thread >= r.rows * r.time * columns) return;
  const int64_t i = thread % columns, t = thread / columns % r.time, b = thread / columns / r.time;
  const T* x = r.x + b * r.from.row + t * r.from.time;
  T* y = r.y + b * r.to.row + t * r.to.time;
  if (i >= r.pairs) {
    const int64_t at = r.pairs + i;
    for (int64_t h = 0; h < r.heads; ++h) y[h * r.to.head + at] = x[h * r.from.head + at];
    return;
  }
  const double frequency = elementwise::pow(r.base, -static_cast<double>(i) / static_cast<double>(r.pairs));
  const elementwise::SinCos turn =
      elementwise::sincos(static_cast<double>(r.first_positions[b] + t) * frequency);
  const A c = static_cast<A>(turn.cos), s = static_cast<A>(r.inverse ? -turn.sin : turn.sin);
  const int64_t at = r.neighbours ? 2 * i : i, other = at + (r.neighbours ? 1 : r.pairs);
  for (int64_t h = 0; h < r.heads; ++h) {
    const A first = loaded(x[h * r.from.head + at]), second = loaded(x[h * r.from.head + other]);
    y[h * r.to.head + at] = stored<T>(first * c - second * s);
    y[h * r.to.head + other] = stored<T>(second * c + first * s);
  }
}

}  // namespace

void rotary(const ops::RotaryCall& c) {
  const Device device = c.x.device();
  const HostList<int64_t> positions(c.first_positions, device);
  with_floating(c.x.dtype(), [&]<class T>(TypeTag<T>) {
    const Rotation<T> rotation = {positions.argument(),
                                  static_cast<const T*>(c.x.raw_data()),
                                  static_cast<T*>(c.y.raw_data()),
                                  HeadLayout(c.x),
                                  HeadLayout(c.y),
                                  c.x.size(0),
                                  c.x.size(1),
                                  c.x.size(2),
                                  c.x.size(3),
                                  c.pairs,
                                  c.base,
                                  c.neighbours,
                                  c.inverse};
    launch("rotary", device, rotation.rows * rotation.time * (rotation.width - rotation.pairs),
           [&](dim3 grid, dim3 block, cudaStream_t stream) {
             rotate_kernel<T><<<grid, block, 0, stream>>>(rotation);
           });
  });
}

}  // namespace tessera::kernels::cuda
