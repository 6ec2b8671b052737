// Two passes over memory forward (statistics, result) and two backward (sums, gradient), each over blocks of
// positions with all of their channels. A block stays in the second-level cache for both steps of its
// moments.
#include "tensor/cpu/images/batch_norm_columns.h"

#include <algorithm>
#include <cmath>

#include "tensor/cpu/images/channel_values.h"
#include "tensor/cpu/loops/channel_columns.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t block_elements = 32768;

template <class T>
const ChannelColumns<T>& channel_columns() {
  if constexpr (std::is_same_v<T, float>)
    return TESSERA_PER_ISA(channel_columns_f32)();
  else if constexpr (std::is_same_v<T, double>)
    return TESSERA_PER_ISA(channel_columns_f64)();
  else if constexpr (std::is_same_v<T, bfloat16>)
    return TESSERA_PER_ISA(channel_columns_bf16)();
  else
    return TESSERA_PER_ISA(channel_columns_f16)();
}

/// The positions of x and the blocks that they are cut into, which depend on the shape alone.
struct Positions {
  int64_t channels, count, per_block, blocks;
  explicit Positions(const Tensor& x)
      : channels(x.shape()[1]),
        count(x.numel() / channels),
        per_block(std::clamp<int64_t>(block_elements / channels, 1, count)),
        blocks((count + per_block - 1) / per_block) {}

  /// Calls visit(block, its first element, its positions), in all threads.
  template <class Visit>
  void for_each_block(const Visit& visit) const {
    parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b)
        visit(b, b * per_block * channels, std::min(per_block, count - b * per_block));
    });
  }
};

/// Five values of each channel in one array.
template <class A>
struct ChannelValues {
  Scratch<A> memory;
  int64_t channels;
  explicit ChannelValues(int64_t c) : memory(5 * c), channels(c) {}
  A* mean() const { return memory.get(); }
  A* scale() const { return memory.get() + channels; }
  A* shift() const { return memory.get() + 2 * channels; }
  A* along() const { return memory.get() + 3 * channels; }
  A* constant() const { return memory.get() + 4 * channels; }
  ChannelMaps<A> maps(bool relu) const { return {mean(), scale(), shift(), relu}; }
};

template <class T>
void normalize(const BatchNormCall& call, const ops::BatchNormed& out) {
  using A = accumulator_of<T>;
  const ChannelColumns<T>& kernels = channel_columns<T>();
  const Positions positions(call.x);
  const int64_t channels = positions.channels;
  const T* const x = data_of<T>(call.x);
  const bool given = call.mean.defined();
  const Scratch<A> moments(given ? 0 : positions.blocks * 2 * channels);
  if (!given)
    positions.for_each_block([&](int64_t b, int64_t at, int64_t rows) {
      A* const mean = moments.get() + b * 2 * channels;
      kernels.moments(x + at, rows, channels, mean, mean + channels);
    });
  const ChannelValues<A> values(channels);
  parallel_for(channels, 1 + 4096 / positions.blocks, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      double mean = 0, rstd = 0;
      if (given) {
        mean = value_at<A>(call.mean, c, 0), rstd = value_at<A>(call.rstd, c, 0);
      } else {
        Moments merged;
        for (int64_t b = 0; b < positions.blocks; ++b) {
          const int64_t rows = std::min(positions.per_block, positions.count - b * positions.per_block);
          const A* const block = moments.get() + b * 2 * channels;
          merged.merge(static_cast<double>(rows), block[c], block[channels + c]);
        }
        const double variance = merged.squares / merged.count;
        mean = merged.mean, rstd = 1 / std::sqrt(variance + call.epsilon);
        set_value<A>(out.mean, c, mean), set_value<A>(out.variance, c, variance);
        set_value<A>(out.rstd, c, rstd);
      }
      values.mean()[c] = static_cast<A>(mean);
      values.scale()[c] = static_cast<A>(rstd) * value_at<T>(call.weight, c, 1);
      values.shift()[c] = value_at<T>(call.bias, c, 0);
    }
  });
  if (!out.y.defined()) return;
  const T* const added = data_of<T>(call.added);
  T* const y = data_of<T>(out.y);
  positions.for_each_block([&](int64_t, int64_t at, int64_t rows) {
    kernels.apply(x + at, added ? added + at : nullptr, rows, channels, values.maps(call.relu), y + at);
  });
}

template <class T>
void differentiate(const BatchNormBackwardCall& call, const ops::BatchNormGradients& out) {
  using A = accumulator_of<T>;
  const ChannelColumns<T>& kernels = channel_columns<T>();
  const Positions positions(call.x);
  const int64_t channels = positions.channels;
  const T *const x = data_of<T>(call.x), *const y = data_of<T>(call.y);
  const T* dy = data_of<T>(call.dy);
  const bool given = call.sum_dy.defined();
  const bool relu = call.relu && !y;
  const bool sums = y || (!given && (out.weight.defined() || out.bias.defined() || call.by_statistics));
  const Scratch<A> partial(sums ? positions.blocks * 2 * channels : 0);
  const ChannelValues<A> values(channels);
  for (int64_t c = 0; c < channels; ++c) {
    values.mean()[c] = value_at<A>(call.mean, c, 0);
    values.scale()[c] = value_at<A>(call.rstd, c, 1) * value_at<T>(call.weight, c, 1);
    values.shift()[c] = value_at<T>(call.bias, c, 0);
  }
  T* const passed = data_of<T>(out.added);
  if (sums)
    positions.for_each_block([&](int64_t b, int64_t at, int64_t rows) {
      A* const sum = partial.get() + b * 2 * channels;
      kernels.sums(x + at, dy + at, y ? y + at : nullptr, rows, channels, values.maps(relu), sum,
                   sum + channels, passed ? passed + at : nullptr);
    });
  if (y) dy = passed;
  parallel_for(channels, 1 + 4096 / positions.blocks, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      double sum = given ? value_at<A>(call.sum_dy, c, 0) : 0.0;
      double along = given ? value_at<A>(call.sum_along, c, 0) : 0.0;
      const A rstd = value_at<A>(call.rstd, c, 1);
      if (sums && !given) {
        for (int64_t b = 0; b < positions.blocks; ++b) {
          const A* const block = partial.get() + b * 2 * channels;
          sum += block[c], along += block[channels + c];
        }
        along *= rstd;
        set_value<A>(out.weight, c, along), set_value<A>(out.bias, c, sum);
      }
      // dx = scale (g - mean(g) - h mean(g h)) with h = (x - mean) rstd.
      const double share = call.by_statistics ? values.scale()[c] / call.count : 0;
      values.along()[c] = static_cast<A>(share * along * rstd);
      values.constant()[c] = static_cast<A>(share * sum);
    }
  });
  if (!out.x.defined()) return;
  T* const dx = data_of<T>(out.x);
  positions.for_each_block([&](int64_t, int64_t at, int64_t rows) {
    kernels.gradient(x + at, dy + at, rows, channels, values.maps(relu), values.along(), values.constant(),
                     dx + at);
  });
}

}  // namespace

void batch_norm_columns(const BatchNormCall& call, const ops::BatchNormed& out) {
  with_floating(call.x.dtype(), [&]<class T>(TypeTag<T>) { normalize<T>(call, out); });
}

void batch_norm_columns_backward(const BatchNormBackwardCall& call, const ops::BatchNormGradients& out) {
  with_floating(call.x.dtype(), [&]<class T>(TypeTag<T>) { differentiate<T>(call, out); });
}

}  // namespace tessera::kernels::cpu
