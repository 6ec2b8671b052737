// Batch norm. The values of a channel are cut into segments: each has its mean and squared deviations from
// one read of memory and one of the cache, and they are merged in f64, in order (Chan et al. 1979). Then one
// pass writes the result. Backward is two passes as well: sums, gradient.
#include "tensor/cuda/images/batch_norm.h"

#include <algorithm>

#include "tensor/channels_last.h"
#include "tensor/cuda/images/channels.cuh"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

/// Writes the mean of each segment, and the sum of its squared deviations, to (channels, segments, 2).
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    moments_kernel(const T* x, ChannelLayout layout, ChannelTeams teams, double* moments) {
  using A = Computed<T>;
  __shared__ double scratch[threads_per_block];
  const int64_t channel = teams.channel();
  const bool exists = channel < layout.channels;
  const auto count = static_cast<double>(teams.values_of_segment(layout));
  A sum = 0;
  if (exists) teams.for_each(layout, [&](int64_t j) { sum += loaded(x[layout.at(channel, j)]); });
  const A center = static_cast<A>(teams.sum(static_cast<double>(sum), scratch) / count);
  A deviations = 0, squares = 0;
  if (exists)
    teams.for_each(layout, [&](int64_t j) {
      const A deviation = loaded(x[layout.at(channel, j)]) - center;
      deviations += deviation;
      squares += deviation * deviation;
    });
  // What the rounded center is off by.
  const double shift = teams.sum(static_cast<double>(deviations), scratch) / count;
  const double all = teams.sum(static_cast<double>(squares), scratch);
  if (!exists || threadIdx.x >= teams.per_block) return;
  double* const own = moments + (channel * teams.segments + blockIdx.y) * 2;
  own[0] = static_cast<double>(center) + shift;
  own[1] = all - shift * shift * count;
}

/// The statistics of each channel, from those of its segments.
template <class A>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    statistics_kernel(const double* moments, ChannelLayout layout, ChannelTeams teams, double epsilon,
                      A* mean, A* variance, A* rstd) {
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (channel >= layout.channels) return;
  double count = 0, center = 0, squares = 0;
  for (unsigned s = 0; s < teams.segments; ++s) {
    const double* const own = moments + (channel * teams.segments + s) * 2;
    const auto n =
        static_cast<double>(min(layout.per_channel - s * teams.segment_length, teams.segment_length));
    const double total = count + n, delta = own[0] - center;
    center += delta * n / total;
    squares += own[1] + delta * delta * count * n / total;
    count = total;
  }
  const double spread = squares / count;
  mean[channel] = static_cast<A>(center);
  variance[channel] = static_cast<A>(spread);
  rstd[channel] = static_cast<A>(1 / sqrt(spread + epsilon));
}

/// y = (x - mean) scale + shift, and max(y, 0) where `relu` is set.
template <class T>
struct Maps {
  using A = Computed<T>;
  const A *mean, *rstd;
  ChannelVector<T> weight, bias;
  bool relu;

  __device__ A scale(int64_t c) const { return rstd[c] * weight[c]; }
  __device__ A operator()(A x, int64_t c) const { return (x - mean[c]) * scale(c) + bias[c]; }
  /// The gradient that passes the relu.
  __device__ A passed(A x, A dy, int64_t c) const { return relu && (*this)(x, c) <= A(0) ? A(0) : dy; }
};

/// Calls `body(i, channel)` for the V neighbouring elements of this thread.
template <int V, class Body>
__device__ void for_each_of_pack(const ChannelLayout& layout, int64_t first, const Body& body) {
  int64_t channel = first / layout.length % layout.channels, rest = first % layout.length;
#pragma unroll
  for (int k = 0; k < V; ++k) {
    body(k, channel);
    if (++rest < layout.length) continue;
    rest = 0;
    channel = channel + 1 == layout.channels ? 0 : channel + 1;
  }
}

template <class T, int V>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    apply_kernel(const Pack<T, V>* x, const Pack<T, V>* added, int64_t packs, ChannelLayout layout,
                 Maps<T> maps, Pack<T, V>* y) {
  using A = Computed<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= packs) return;
  const Pack<T, V> in = x[i];
  Pack<T, V> more{}, out;
  if (added != nullptr) more = added[i];
  for_each_of_pack<V>(layout, i * V, [&](int k, int64_t channel) {
    A value = maps(loaded(in.at[k]), channel);
    if (added != nullptr) value += loaded(more.at[k]);
    out.at[k] = stored<T>(maps.relu && value < A(0) ? A(0) : value);  // NaN stays
  });
  y[i] = out;
}

/// Writes the sums of each segment of g and of g (x - mean) to (channels, segments, 2). g is dy, or 0 where
/// the relu gave 0: that of the maps, or of a result y, and g is then stored in `passed`.
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    sums_kernel(const T* x, const T* dy, const T* y, ChannelLayout layout, ChannelTeams teams, Maps<T> maps,
                double* sums, T* passed) {
  using A = Computed<T>;
  __shared__ double scratch[threads_per_block];
  const int64_t channel = teams.channel();
  const bool exists = channel < layout.channels;
  A sum = 0, along = 0;
  if (exists)
    teams.for_each(layout, [&](int64_t j) {
      const int64_t at = layout.at(channel, j);
      const A value = loaded(x[at]);
      A g = loaded(dy[at]);
      if (y == nullptr)
        g = maps.passed(value, g, channel);
      else if (loaded(y[at]) <= A(0))
        g = A(0);
      if (passed != nullptr) passed[at] = stored<T>(g);
      sum += g;
      along += g * (value - maps.mean[channel]);
    });
  const double all = teams.sum(static_cast<double>(sum), scratch);
  const double all_along = teams.sum(static_cast<double>(along), scratch);
  if (!exists || threadIdx.x >= teams.per_block) return;
  double* const own = sums + (channel * teams.segments + blockIdx.y) * 2;
  own[0] = all;
  own[1] = all_along;
}

/// The parts of the gradient that a channel's values share.
template <class T>
struct Shares {
  using A = Computed<T>;
  const double* sums;  ///< of segments; null: `given`, or none
  const A *given_sum, *given_along;
  double count;
  bool by_statistics;
  A *weight, *bias;        ///< gradients; null where they are not wanted
  A *by_deviation, *each;  ///< (C), of a value's deviation from the mean, and of every value
};

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    shares_kernel(Shares<T> shares, int64_t channels, unsigned segments, Maps<T> maps) {
  using A = Computed<T>;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (c >= channels) return;
  const double rstd = static_cast<double>(maps.rstd[c]);
  double sum = 0, along = 0;
  if (shares.given_sum != nullptr) {
    sum = static_cast<double>(shares.given_sum[c]);
    along = static_cast<double>(shares.given_along[c]);
  } else if (shares.sums != nullptr) {
    for (unsigned s = 0; s < segments; ++s) {
      sum += shares.sums[(c * segments + s) * 2];
      along += shares.sums[(c * segments + s) * 2 + 1];
    }
    along *= rstd;
  }
  if (shares.weight != nullptr) shares.weight[c] = static_cast<A>(along);
  if (shares.bias != nullptr) shares.bias[c] = static_cast<A>(sum);
  // dx = scale (g - mean(g) - h mean(g h)) with h = (x - mean) rstd.
  const double share = shares.by_statistics ? static_cast<double>(maps.scale(c)) / shares.count : 0.0;
  shares.by_deviation[c] = static_cast<A>(share * along * rstd);
  shares.each[c] = static_cast<A>(share * sum);
}

template <class T, int V>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    gradient_kernel(const Pack<T, V>* x, const Pack<T, V>* dy, int64_t packs, ChannelLayout layout,
                    Maps<T> maps, Shares<T> shares, Pack<T, V>* dx) {
  using A = Computed<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= packs) return;
  const Pack<T, V> in = x[i], gradient = dy[i];
  Pack<T, V> out;
  for_each_of_pack<V>(layout, i * V, [&](int k, int64_t c) {
    const A value = loaded(in.at[k]), g = maps.passed(value, loaded(gradient.at[k]), c);
    out.at[k] =
        stored<T>(g * maps.scale(c) - shares.by_deviation[c] * (value - maps.mean[c]) - shares.each[c]);
  });
  dx[i] = out;
}

/// Calls `body.operator()<V>()` with as many elements to a thread as all tensors allow.
template <class T, class Body, class... Tensors>
void with_packs(const Body& body, const Tensors&... tensors) {
  constexpr int V = 16 / static_cast<int>(sizeof(T));
  const auto fits = [](const Tensor& x) {
    return !x.defined() || (x.numel() % V == 0 && reinterpret_cast<uintptr_t>(x.raw_data()) % 16 == 0);
  };
  (fits(tensors) && ...) ? body.template operator()<V>() : body.template operator()<1>();
}

unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>((threads + threads_per_block - 1) / threads_per_block);
}

template <class T>
void normalize(const ops::BatchNormCall& call, const ops::BatchNormed& out) {
  using A = Computed<T>;
  const Device device = call.x.device();
  const cuda_runtime::DeviceGuard guard(device);
  const cudaStream_t stream = cuda_runtime::current_stream(device);
  const ChannelLayout layout(call.x, is_channels_last(call.x));
  const bool given = call.mean.defined();
  if (!given) {
    const ChannelTeams teams(layout, device);
    const Shape shape{layout.channels, int64_t{teams.segments}, 2};
    const Tensor moments = Tensor::empty(shape, f64, device);
    moments_kernel<T><<<teams.grid(layout), threads_per_block, 0, stream>>>(
        typed_or_null<const T>(call.x), layout, teams, typed_or_null<double>(moments));
    cuda_runtime::check_launch("batch_norm");
    statistics_kernel<A><<<blocks_for(layout.channels), threads_per_block, 0, stream>>>(
        typed_or_null<double>(moments), layout, teams, call.epsilon, typed_or_null<A>(out.mean),
        typed_or_null<A>(out.variance), typed_or_null<A>(out.rstd));
    cuda_runtime::check_launch("batch_norm");
  }
  if (!out.y.defined()) return;
  const Maps<T> maps{typed_or_null<const A>(given ? call.mean : out.mean),
                     typed_or_null<const A>(given ? call.rstd : out.rstd), ChannelVector<T>(call.weight, 1),
                     ChannelVector<T>(call.bias, 0), call.relu};
  with_packs<T>(
      [&]<int V>() {
        const int64_t packs = call.x.numel() / V;
        apply_kernel<T, V><<<blocks_for(packs), threads_per_block, 0, stream>>>(
            typed_or_null<const Pack<T, V>>(call.x), typed_or_null<const Pack<T, V>>(call.added), packs,
            layout, maps, typed_or_null<Pack<T, V>>(out.y));
      },
      call.x, call.added, out.y);
  cuda_runtime::check_launch("batch_norm");
}

template <class T>
void differentiate(const ops::BatchNormBackwardCall& call, const ops::BatchNormGradients& out) {
  using A = Computed<T>;
  const Device device = call.x.device();
  const cuda_runtime::DeviceGuard guard(device);
  const cudaStream_t stream = cuda_runtime::current_stream(device);
  const ChannelLayout layout(call.x, is_channels_last(call.x));
  const ChannelTeams teams(layout, device);
  const bool given = call.sum_dy.defined(), has_y = call.y.defined();
  const Maps<T> maps{typed_or_null<const A>(call.mean), typed_or_null<const A>(call.rstd),
                     ChannelVector<T>(call.weight, 1), ChannelVector<T>(call.bias, 0), call.relu && !has_y};
  Tensor sums;
  if (has_y || (!given && (out.weight.defined() || out.bias.defined() || call.by_statistics))) {
    const Shape shape{layout.channels, int64_t{teams.segments}, 2};
    sums = Tensor::empty(shape, f64, device);
    sums_kernel<T><<<teams.grid(layout), threads_per_block, 0, stream>>>(
        typed_or_null<const T>(call.x), typed_or_null<const T>(call.dy), typed_or_null<const T>(call.y),
        layout, teams, maps, typed_or_null<double>(sums), typed_or_null<T>(out.added));
    cuda_runtime::check_launch("batch_norm_backward");
  }
  const Shape two{2, layout.channels};
  const Tensor shared = Tensor::empty(two, dtype_of<A>, device);
  A* const parts = typed_or_null<A>(shared);
  const Shares<T> shares{typed_or_null<const double>(sums),
                         typed_or_null<const A>(call.sum_dy),
                         typed_or_null<const A>(call.sum_along),
                         call.count,
                         call.by_statistics,
                         typed_or_null<A>(out.weight),
                         typed_or_null<A>(out.bias),
                         parts,
                         parts + layout.channels};
  shares_kernel<T><<<blocks_for(layout.channels), threads_per_block, 0, stream>>>(shares, layout.channels,
                                                                                  teams.segments, maps);
  cuda_runtime::check_launch("batch_norm_backward");
  if (!out.x.defined()) return;
  const Tensor& dy = has_y ? out.added : call.dy;
  with_packs<T>(
      [&]<int V>() {
        const int64_t packs = call.x.numel() / V;
        gradient_kernel<T, V><<<blocks_for(packs), threads_per_block, 0, stream>>>(
            typed_or_null<const Pack<T, V>>(call.x), typed_or_null<const Pack<T, V>>(dy), packs, layout, maps,
            shares, typed_or_null<Pack<T, V>>(out.x));
      },
      call.x, dy, out.x);
  cuda_runtime::check_launch("batch_norm_backward");
}

}  // namespace

void batch_norm(const ops::BatchNormCall& call, const ops::BatchNormed& out) {
  if (call.x.numel() == 0) return;
  with_floating(call.x.dtype(), [&]<class T>(TypeTag<T>) { normalize<T>(call, out); });
}

void batch_norm_backward(const ops::BatchNormBackwardCall& call, const ops::BatchNormGradients& out) {
  if (call.x.numel() == 0) {
    for (const Tensor& gradient : {out.weight, out.bias})
      if (gradient.defined()) gradient.zero();
    return;
  }
  with_floating(call.x.dtype(), [&]<class T>(TypeTag<T>) { differentiate<T>(call, out); });
}

}  // namespace tessera::kernels::cuda
