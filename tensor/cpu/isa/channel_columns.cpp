// Values of all channels of a batch norm, position after position. A row's channels are one loop of vectors;
// sums of channels stay in the first-level cache, and four rows are added before they are touched.
#include "tensor/cpu/loops/channel_columns.h"

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/independent_iterations.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class T>
using Computed = accumulator_of<T>;

/// sum[c] += value(row, c) over rows, four of them at a time.
template <class A, class Value>
[[gnu::always_inline]] inline void add_rows(int64_t rows, int64_t channels, A* sum, const Value& value) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t c = 0; c < channels; ++c)
      sum[c] += (value(r, c) + value(r + 1, c)) + (value(r + 2, c) + value(r + 3, c));
  }
  for (; r < rows; ++r) {
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t c = 0; c < channels; ++c) sum[c] += value(r, c);
  }
}

template <class T>
void moments(const T* x, int64_t rows, int64_t channels, Computed<T>* mean, Computed<T>* squares) {
  using A = Computed<T>;
  for (int64_t c = 0; c < channels; ++c) mean[c] = squares[c] = A(0);
  add_rows(rows, channels, mean, [=](int64_t r, int64_t c) { return widen<A>(x[r * channels + c]); });
  const A share = A(1) / static_cast<A>(rows);
  for (int64_t c = 0; c < channels; ++c) mean[c] *= share;
  add_rows(rows, channels, squares, [=](int64_t r, int64_t c) {
    const A d = widen<A>(x[r * channels + c]) - mean[c];
    return d * d;
  });
}

template <bool relu, bool adds, class T>
void apply_to(const T* x, const T* added, int64_t rows, int64_t channels,
              const ChannelMaps<Computed<T>>& maps, T* y) {
  using A = Computed<T>;
  const A *mean = maps.mean, *scale = maps.scale, *shift = maps.shift;
  for (int64_t r = 0; r < rows; ++r) {
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t c = 0; c < channels; ++c) {
      A value = (widen<A>(x[r * channels + c]) - mean[c]) * scale[c] + shift[c];
      if constexpr (adds) value += widen<A>(added[r * channels + c]);
      if constexpr (relu) value = value < A(0) ? A(0) : value;  // NaN stays
      y[r * channels + c] = narrow<T>(value);
    }
  }
}

template <class T>
void apply(const T* x, const T* added, int64_t rows, int64_t channels, const ChannelMaps<Computed<T>>& maps,
           T* y) {
  if (added)
    (maps.relu ? apply_to<true, true, T> : apply_to<false, true, T>)(x, added, rows, channels, maps, y);
  else
    (maps.relu ? apply_to<true, false, T> : apply_to<false, false, T>)(x, added, rows, channels, maps, y);
}

/// The gradient that passes the maps' relu, if there is one, at channel c.
template <bool relu, class A>
[[gnu::always_inline]] inline A passed_at(A x, A dy, const ChannelMaps<A>& maps, int64_t c) {
  if constexpr (relu)
    return (x - maps.mean[c]) * maps.scale[c] + maps.shift[c] <= A(0) ? A(0) : dy;
  else
    return dy;
}

template <bool relu, class T>
void add_up(const T* x, const T* dy, int64_t rows, int64_t channels, const ChannelMaps<Computed<T>>& maps,
            Computed<T>* sum, Computed<T>* along) {
  using A = Computed<T>;
  const ChannelMaps<A> m = maps;
  const auto g = [=](int64_t r, int64_t c) {
    return passed_at<relu>(widen<A>(x[r * channels + c]), widen<A>(dy[r * channels + c]), m, c);
  };
  const auto g_along = [=](int64_t r, int64_t c) {
    return g(r, c) * (widen<A>(x[r * channels + c]) - m.mean[c]);
  };
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t c = 0; c < channels; ++c) {
      sum[c] += (g(r, c) + g(r + 1, c)) + (g(r + 2, c) + g(r + 3, c));
      along[c] += (g_along(r, c) + g_along(r + 1, c)) + (g_along(r + 2, c) + g_along(r + 3, c));
    }
  }
  for (; r < rows; ++r) {
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t c = 0; c < channels; ++c) sum[c] += g(r, c), along[c] += g_along(r, c);
  }
}

template <class T>
void sums(const T* x, const T* dy, const T* y, int64_t rows, int64_t channels,
          const ChannelMaps<Computed<T>>& maps, Computed<T>* sum, Computed<T>* along, T* passed) {
  using A = Computed<T>;
  for (int64_t c = 0; c < channels; ++c) sum[c] = along[c] = A(0);
  if (!y) return (maps.relu ? add_up<true, T> : add_up<false, T>)(x, dy, rows, channels, maps, sum, along);
  // Four rows at a time: the store of what passes is in the first-level cache when it is added up.
  for (int64_t r = 0; r < rows; r += 4) {
    const int64_t count = rows - r < 4 ? rows - r : 4, at = r * channels;
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t i = at; i < at + count * channels; ++i)
      passed[i] = narrow<T>(widen<A>(y[i]) <= A(0) ? A(0) : widen<A>(dy[i]));
    add_up<false, T>(x + at, passed + at, count, channels, maps, sum, along);
  }
}

template <bool relu, class T>
void differentiate(const T* x, const T* dy, int64_t rows, int64_t channels,
                   const ChannelMaps<Computed<T>>& maps, const Computed<T>* along,
                   const Computed<T>* constant, T* dx) {
  using A = Computed<T>;
  const ChannelMaps<A> m = maps;
  for (int64_t r = 0; r < rows; ++r) {
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t c = 0; c < channels; ++c) {
      const A value = widen<A>(x[r * channels + c]);
      const A g = passed_at<relu>(value, widen<A>(dy[r * channels + c]), m, c);
      dx[r * channels + c] = narrow<T>(g * m.scale[c] - along[c] * (value - m.mean[c]) - constant[c]);
    }
  }
}

template <class T>
void gradient(const T* x, const T* dy, int64_t rows, int64_t channels, const ChannelMaps<Computed<T>>& maps,
              const Computed<T>* along, const Computed<T>* constant, T* dx) {
  (maps.relu ? differentiate<true, T> : differentiate<false, T>)(x, dy, rows, channels, maps, along, constant,
                                                                 dx);
}

template <class T>
constexpr ChannelColumns<T> table{&moments<T>, &apply<T>, &sums<T>, &gradient<T>};

}  // namespace

const ChannelColumns<float>& channel_columns_f32() {
  return table<float>;
}
const ChannelColumns<double>& channel_columns_f64() {
  return table<double>;
}
const ChannelColumns<bfloat16>& channel_columns_bf16() {
  return table<bfloat16>;
}
const ChannelColumns<float16>& channel_columns_f16() {
  return table<float16>;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
