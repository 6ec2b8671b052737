// Batch norm. A thread takes one channel at a time through all steps, so that a channel that fits in its
// cache is read from memory once forward (x) and once backward (x and dy). The moments of blocks of 2,048
// values are merged in f64, in order: they do not depend on the number of threads, and keep their precision
// when the mean is large. A channel with few values in a row (B, C) is first copied into a row of its own,
// sixteen channels at a time.
#include "tensor/cpu/images/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "tensor/channels_last.h"
#include "tensor/cpu/images/batch_norm_columns.h"
#include "tensor/cpu/images/channel_blocks.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 16384;
constexpr int64_t least_segment = 16;  ///< shorter ones are gathered
constexpr int64_t gathered_channels = 16;

/// Contiguous (N, C, L): channel c is N segments of L values, C L apart.
struct Extents {
  int64_t samples, channels, length;
  explicit Extents(const Tensor& x)
      : samples(x.shape()[0]),
        channels(x.shape()[1]),
        length(channels == 0 || samples == 0 ? 0 : x.numel() / (samples * channels)) {}
  int64_t per_channel() const { return samples * length; }
};

/// The segments of one channel, in blocks that stay in the first-level cache.
template <class T>
struct Segments {
  T* data;
  int64_t count, stride, length;

  /// Calls visit(block, n) for each block, a T*.
  template <class Visit>
  void for_each_block(const Visit& visit) const {
    for (int64_t s = 0; s < count; ++s)
      for (int64_t i = 0; i < length; i += block_elements)
        visit(s * stride + i, std::min(block_elements, length - i));
  }
};

/// Runs `channel(c, segments...)` for every channel, on the tensors themselves or, where segments are short,
/// on rows gathered from `inputs` and scattered to `output`, which may be undefined.
template <class T, size_t inputs, class Channel>
void for_each_channel(const Extents& e, const std::array<const T*, inputs>& in, T* out,
                      const Channel& channel) {
  using A = accumulator_of<T>;
  const int64_t per_channel = std::max<int64_t>(1, e.per_channel()), stride = e.channels * e.length;
  if (e.length >= least_segment || e.channels == 1) {
    parallel_for(e.channels, 1 + grain_elements / per_channel, [&](int64_t begin, int64_t end) {
      const Buffers<A> buffers;
      for (int64_t c = begin; c < end; ++c) {
        std::array<Segments<const T>, inputs> rows;
        for (size_t i = 0; i < inputs; ++i)
          rows[i] = {in[i] ? in[i] + c * e.length : nullptr, e.samples, stride, e.length};
        channel(c, rows, Segments<T>{out ? out + c * e.length : nullptr, e.samples, stride, e.length},
                buffers);
      }
    });
    return;
  }
  const int64_t groups = (e.channels + gathered_channels - 1) / gathered_channels;
  parallel_for(
      groups, 1 + grain_elements / (per_channel * gathered_channels), [&](int64_t begin, int64_t end) {
        const Buffers<A> buffers;
        const int64_t group_elements = gathered_channels * per_channel;
        const Scratch<A> rows_memory(static_cast<int64_t>(inputs + 1) * group_elements);
        for (int64_t g = begin; g < end; ++g) {
          const int64_t first = g * gathered_channels,
                        count = std::min(gathered_channels, e.channels - first);
          for (size_t i = 0; i < inputs; ++i)
            for (int64_t n = 0; in[i] && n < e.samples; ++n)
              for (int64_t c = 0; c < count; ++c)
                for (int64_t l = 0; l < e.length; ++l)
                  rows_memory
                      .get()[static_cast<int64_t>(i) * group_elements + c * per_channel + n * e.length + l] =
                      widen<A>(in[i][n * stride + (first + c) * e.length + l]);
          A* const results = rows_memory.get() + static_cast<int64_t>(inputs) * group_elements;
          for (int64_t c = 0; c < count; ++c) {
            std::array<Segments<const A>, inputs> rows;
            for (size_t i = 0; i < inputs; ++i)
              rows[i] = {rows_memory.get() + static_cast<int64_t>(i) * group_elements + c * per_channel, 1, 0,
                         per_channel};
            channel(first + c, rows,
                    Segments<A>{out ? results + c * per_channel : nullptr, 1, 0, per_channel}, buffers);
          }
          for (int64_t n = 0; out && n < e.samples; ++n)
            for (int64_t c = 0; c < count; ++c)
              for (int64_t l = 0; l < e.length; ++l)
                out[n * stride + (first + c) * e.length + l] =
                    narrow<T>(results[c * per_channel + n * e.length + l]);
        }
      });
}

template <class T>
void normalize(const BatchNormCall& call, const ops::BatchNormed& out) {
  using A = accumulator_of<T>;
  const ChannelRows<A>& kernels = channel_rows<A>();
  const Extents extents(call.x);
  for_each_channel<T, 1>(
      extents, {data_of<T>(call.x)}, data_of<T>(out.y),
      [&]<class S>(int64_t c, const std::array<Segments<const S>, 1>& in, const Segments<S>& y,
                   const Buffers<A>& buffers) {
        const Segments<const S>& x = in[0];
        double mean = 0, rstd = 0;
        if (call.mean.defined()) {
          mean = value_at<A>(call.mean, c, 0), rstd = value_at<A>(call.rstd, c, 0);
        } else {
          Moments moments;
          x.for_each_block([&](int64_t at, int64_t n) {
            A block_mean, block_squares;
            kernels.moments(read(x.data + at, n, buffers.x()), n, &block_mean, &block_squares);
            moments.merge(static_cast<double>(n), block_mean, block_squares);
          });
          const double variance = moments.squares / moments.count;
          mean = moments.mean, rstd = 1 / std::sqrt(variance + call.epsilon);
          set_value<A>(out.mean, c, mean), set_value<A>(out.variance, c, variance);
          set_value<A>(out.rstd, c, rstd);
        }
        if (!y.data) return;
        const ChannelMap<A> map{static_cast<A>(mean), static_cast<A>(rstd) * value_at<T>(call.weight, c, 1),
                                value_at<T>(call.bias, c, 0), call.relu};
        x.for_each_block([&](int64_t at, int64_t n) {
          A* const row = result(y.data + at, buffers.out());
          kernels.apply(read(x.data + at, n, buffers.x()), n, map, row);
          store_result(row, n, y.data + at);
        });
      });
}

template <class T>
void differentiate(const BatchNormBackwardCall& call, const ops::BatchNormGradients& out) {
  using A = accumulator_of<T>;
  const ChannelRows<A>& kernels = channel_rows<A>();
  const bool given = call.sum_dy.defined();
  const bool sums = !given && (out.weight.defined() || out.bias.defined() || call.by_statistics);
  for_each_channel<T, 2>(
      Extents(call.x), {data_of<T>(call.x), data_of<T>(call.dy)}, data_of<T>(out.x),
      [&]<class S>(int64_t c, const std::array<Segments<const S>, 2>& in, const Segments<S>& dx,
                   const Buffers<A>& buffers) {
        const Segments<const S>&x = in[0], &dy = in[1];
        const A rstd = value_at<A>(call.rstd, c, 1);
        const ChannelMap<A> map{value_at<A>(call.mean, c, 0), rstd * value_at<T>(call.weight, c, 1),
                                value_at<T>(call.bias, c, 0), call.relu};
        double sum = given ? value_at<A>(call.sum_dy, c, 0) : 0.0;
        double along = given ? value_at<A>(call.sum_along, c, 0) : 0.0;
        if (sums) {
          x.for_each_block([&](int64_t at, int64_t n) {
            A block_sum, block_along;
            kernels.sums(read(x.data + at, n, buffers.x()), read(dy.data + at, n, buffers.dy()), n, map,
                         &block_sum, &block_along);
            sum += block_sum, along += block_along;
          });
          along *= rstd;
          set_value<A>(out.weight, c, along), set_value<A>(out.bias, c, sum);
        }
        if (!dx.data) return;
        // dx = scale (g - mean(g) - h mean(g h)) with h = (x - mean) rstd.
        const double share = call.by_statistics ? map.scale / call.count : 0;
        const A by_x = static_cast<A>(share * along * rstd), constant = static_cast<A>(share * sum);
        x.for_each_block([&](int64_t at, int64_t n) {
          A* const row = result(dx.data + at, buffers.out());
          kernels.gradient(read(x.data + at, n, buffers.x()), read(dy.data + at, n, buffers.dy()), n, map,
                           by_x, constant, row);
          store_result(row, n, dx.data + at);
        });
      });
}

}  // namespace

void batch_norm(const BatchNormCall& call, const ops::BatchNormed& out) {
  if (call.x.numel() == 0) return;
  if (is_channels_last(call.x)) return batch_norm_columns(call, out);
  with_floating(call.x.dtype(), [&]<class T>(TypeTag<T>) { normalize<T>(call, out); });
}

void batch_norm_backward(const BatchNormBackwardCall& call, const ops::BatchNormGradients& out) {
  if (call.x.numel() == 0) {
    if (out.weight.defined()) out.weight.zero();
    if (out.bias.defined()) out.bias.zero();
    return;
  }
  if (is_channels_last(call.x)) return batch_norm_columns_backward(call, out);
  with_floating(call.x.dtype(), [&]<class T>(TypeTag<T>) { differentiate<T>(call, out); });
}

}  // namespace tessera::kernels::cpu
