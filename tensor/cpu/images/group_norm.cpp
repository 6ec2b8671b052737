// Group norm. A thread takes one group of one sample through all steps: its values lie in a row, which is
// read from memory once forward (x) and once backward (x and dy) where it fits in the cache. Moments of
// blocks are merged in f64, in order, and sums of channels over the samples are added in order: no number of
// threads changes a bit.
#include "tensor/cpu/images/group_norm.h"

#include <algorithm>
#include <cmath>

#include "tensor/cpu/images/channel_blocks.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 16384;

/// Row `n groups + g` holds channels g width to (g + 1) width of sample n, of `length` values each.
struct Rows {
  int64_t channels, groups, width, length, count;
  Rows(const Tensor& x, const Tensor& mean)
      : channels(x.shape()[1]),
        groups(mean.shape()[1]),
        width(channels / groups),
        length(x.numel() / (x.shape()[0] * channels)),
        count(x.shape()[0] * groups) {}
  int64_t elements() const { return width * length; }
  /// The first channel of a row.
  int64_t channel(int64_t row) const { return row % groups * width; }
  template <class Body>
  void for_each(const Body& body) const {
    parallel_for(count, 1 + grain_elements / elements(), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) body(row);
    });
  }
};

/// Calls `visit(at, n)` for the blocks of `length` values from `start` on.
template <class Visit>
void for_each_block(int64_t start, int64_t length, const Visit& visit) {
  for (int64_t i = 0; i < length; i += block_elements) visit(start + i, std::min(block_elements, length - i));
}

template <class T>
void normalize(double epsilon, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
               const Tensor& rstd, const Tensor& y) {
  using A = accumulator_of<T>;
  const ChannelRows<A>& kernels = channel_rows<A>();
  const Rows rows(x, mean);
  const T* from = data_of<T>(x);
  T* to = data_of<T>(y);
  rows.for_each([&](int64_t row) {
    const Buffers<A> buffers;
    const int64_t start = row * rows.elements();
    Moments moments;
    for_each_block(start, rows.elements(), [&](int64_t at, int64_t n) {
      A block_mean, block_squares;
      kernels.moments(read(from + at, n, buffers.x()), n, &block_mean, &block_squares);
      moments.merge(static_cast<double>(n), block_mean, block_squares);
    });
    const double inverse = 1 / std::sqrt(moments.squares / moments.count + epsilon);
    set_value<A>(mean, row, moments.mean), set_value<A>(rstd, row, inverse);
    for (int64_t c = 0; c < rows.width; ++c) {
      const int64_t channel = rows.channel(row) + c;
      const ChannelMap<A> map{static_cast<A>(moments.mean),
                              static_cast<A>(inverse) * value_at<T>(weight, channel, 1),
                              value_at<T>(bias, channel, 0), false};
      for_each_block(start + c * rows.length, rows.length, [&](int64_t at, int64_t n) {
        A* const out = result(to + at, buffers.out());
        kernels.apply(read(from + at, n, buffers.x()), n, map, out);
        store_result(out, n, to + at);
      });
    }
  });
}

template <class T>
void differentiate(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                   const Tensor& rstd, const Tensor& along, const Tensor& sums, const Tensor& dx) {
  using A = accumulator_of<T>;
  const ChannelRows<A>& kernels = channel_rows<A>();
  const Rows rows(x, mean);
  const T *from = data_of<T>(x), *gradient = data_of<T>(dy);
  T* to = data_of<T>(dx);
  rows.for_each([&](int64_t row) {
    const Buffers<A> buffers;
    const A centre = value_at<A>(mean, row, 0), inverse = value_at<A>(rstd, row, 1);
    // Sums over the group of g = weight dy, and of g h with h = (x - mean) rstd.
    double group_sum = 0, group_along = 0;
    for (int64_t c = 0; c < rows.width; ++c) {
      const int64_t channel = rows.channel(row) + c;
      const ChannelMap<A> map{centre, inverse, 0, false};
      double sum = 0, by_x = 0;
      for_each_block(row * rows.elements() + c * rows.length, rows.length, [&](int64_t at, int64_t n) {
        A block_sum, block_along;
        kernels.sums(read(from + at, n, buffers.x()), read(gradient + at, n, buffers.dy()), n, map,
                     &block_sum, &block_along);
        sum += block_sum, by_x += block_along;
      });
      by_x *= inverse;
      set_value<A>(sums, row * rows.width + c, sum), set_value<A>(along, row * rows.width + c, by_x);
      const double factor = value_at<T>(weight, channel, 1);
      group_sum += factor * sum, group_along += factor * by_x;
    }
    if (!to) return;
    // dx = rstd (g - mean(g) - h mean(g h)).
    const double share = inverse / static_cast<double>(rows.elements());
    const A by_x = static_cast<A>(share * group_along * inverse),
            constant = static_cast<A>(share * group_sum);
    for (int64_t c = 0; c < rows.width; ++c) {
      const ChannelMap<A> map{centre, inverse * value_at<T>(weight, rows.channel(row) + c, 1), 0, false};
      for_each_block(row * rows.elements() + c * rows.length, rows.length, [&](int64_t at, int64_t n) {
        A* const out = result(to + at, buffers.out());
        kernels.gradient(read(from + at, n, buffers.x()), read(gradient + at, n, buffers.dy()), n, map, by_x,
                         constant, out);
        store_result(out, n, to + at);
      });
    }
  });
}

}  // namespace

void group_norm(double epsilon, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                const Tensor& rstd, const Tensor& y) {
  with_floating(x.dtype(),
                [&]<class T>(TypeTag<T>) { normalize<T>(epsilon, x, weight, bias, mean, rstd, y); });
}

void group_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                         const Tensor& rstd, const Tensor& along, const Tensor& sums, const Tensor& dx) {
  with_floating(x.dtype(),
                [&]<class T>(TypeTag<T>) { differentiate<T>(dy, x, weight, mean, rstd, along, sums, dx); });
}

}  // namespace tessera::kernels::cpu
