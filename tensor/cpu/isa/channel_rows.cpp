// Values of one channel of a batch norm. A block stays in the first-level cache for both passes of `moments`.
#include "tensor/cpu/loops/channel_rows.h"

#include "tensor/cpu/isa/lanes.h"
#include "tensor/cpu/loops/independent_iterations.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class A>
void moments(const A* x, int64_t n, A* mean, A* squares) {
  const A center = sum_lanes<A>(n, [=](int64_t i) { return x[i]; }) / static_cast<A>(n);
  *mean = center;
  *squares = sum_lanes<A>(n, [=](int64_t i) { return (x[i] - center) * (x[i] - center); });
}

template <class A>
void apply(const A* x, int64_t n, ChannelMap<A> map, A* y) {
  const A mean = map.mean, scale = map.scale, shift = map.shift;
  if (map.relu) {
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) {
      const A value = (x[i] - mean) * scale + shift;
      y[i] = value < A(0) ? A(0) : value;  // NaN stays
    }
  } else {
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale + shift;
  }
}

/// The gradient that passes the relu, if there is one, at element i.
template <bool relu, class A>
[[gnu::always_inline]] inline A passed(const A* x, const A* dy, int64_t i, const ChannelMap<A>& map) {
  if constexpr (relu)
    return (x[i] - map.mean) * map.scale + map.shift <= A(0) ? A(0) : dy[i];
  else
    return dy[i];
}

template <bool relu, class A>
void add_up(const A* x, const A* dy, int64_t n, ChannelMap<A> map, A* sum, A* along) {
  *sum = sum_lanes<A>(n, [=](int64_t i) { return passed<relu>(x, dy, i, map); });
  *along = sum_lanes<A>(n, [=](int64_t i) { return passed<relu>(x, dy, i, map) * (x[i] - map.mean); });
}

template <class A>
void sums(const A* x, const A* dy, int64_t n, ChannelMap<A> map, A* sum, A* along) {
  map.relu ? add_up<true>(x, dy, n, map, sum, along) : add_up<false>(x, dy, n, map, sum, along);
}

template <bool relu, class A>
void differentiate(const A* x, const A* dy, int64_t n, ChannelMap<A> map, A along, A constant, A* dx) {
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i)
    dx[i] = passed<relu>(x, dy, i, map) * map.scale - along * (x[i] - map.mean) - constant;
}

template <class A>
void gradient(const A* x, const A* dy, int64_t n, ChannelMap<A> map, A along, A constant, A* dx) {
  map.relu ? differentiate<true>(x, dy, n, map, along, constant, dx)
           : differentiate<false>(x, dy, n, map, along, constant, dx);
}

template <class A>
constexpr ChannelRows<A> table{&moments<A>, &apply<A>, &sums<A>, &gradient<A>};

}  // namespace

const ChannelRows<float>& channel_rows_f32() {
  return table<float>;
}
const ChannelRows<double>& channel_rows_f64() {
  return table<double>;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
