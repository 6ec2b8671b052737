// Rows of layer norm and RMS norm, in the type of storage: values are widened in registers. Forward: x is
// read once from memory and twice more from the first-level cache; backward: x and dy twice, base once. The
// variance is computed from the deviations, which keeps its precision when the mean is large. Several rows
// are computed together, so that the sums, roots and quotients of one wait while those of the others go on.
#include "tensor/cpu/loops/normalization_rows.h"

#include "tensor/cpu/isa/stored_lanes.h"
#include "tensor/elementwise/target.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

/// Rows of forward, and of backward, that run together: their accumulators fit the registers. A row of a wide
/// type takes twice the memory, and more rows are more streams: one is faster where registers are long.
template <class T>
constexpr int forward_rows = register_bytes == 64   ? (is_half<T> ? 4 : 1)
                             : register_bytes == 32 ? 2
                                                    : 1;
template <class T>
constexpr int backward_rows = register_bytes == 64 && is_half<T> ? 2 : 1;

/// The sums over n of at(row, i, part) for `count` rows, each in the order of `sum_lanes`.
template <int count, class A, class At>
[[gnu::always_inline]] inline void sum_rows(int64_t n, A* sums, const At& at) {
  Lanes<A> first[count], second[count];
  for (int r = 0; r < count; ++r) first[r] = second[r] = fill(A(0));
  for_vector_pairs<A>(n, [&](int64_t i, auto part, auto is_second) {
    for (int r = 0; r < count; ++r) {
      Lanes<A>& sum = is_second ? second[r] : first[r];
      sum = sum + at(r, i, part);
    }
  });
  for (int r = 0; r < count; ++r) sums[r] = fold<A>(first[r] + second[r], Add());
}

template <int count, class T, class A>
[[gnu::always_inline]] inline void scale_some_rows(const T* x, int64_t n, const A* weight, const A* bias,
                                                   const A* mean, const A* rstd, T* y) {
  Lanes<A> center[count], scale[count];
  for (int r = 0; r < count; ++r) center[r] = fill(mean[r]), scale[r] = fill(rstd[r]);
  for_vectors<A>(n, [&](int64_t i, auto part) {
    for (int r = 0; r < count; ++r) {
      Lanes<A> v = (load_widened(x + r * n + i, part) - center[r]) * scale[r];
      if (weight) v = v * load_widened(weight + i, part);
      if (bias) v = v + load_widened(bias + i, part);
      store_narrowed(y + r * n + i, v, part);
    }
  });
}

template <class T, class D>
struct Forward {
  using A = accumulator_of<T>;
  const T* x;
  const D* delta;
  int64_t n;
  const A *weight, *bias;
  A eps;
  T *sum, *y;
  A *mean, *rstd;

  template <int count>
  [[gnu::always_inline]] void rows(int64_t first) const {
    const int64_t from = first * n;
    const A values = static_cast<A>(n);
    const T* row = x + from;
    A center[count] = {}, scale[count];
    if (delta) {
      const T* const old = row;
      const D* const added = delta + from;
      T* const total = sum + from;
      sum_rows<count>(n, center, [&](int r, int64_t i, auto part) {
        store_narrowed(total + r * n + i,
                       load_widened(old + r * n + i, part) + load_widened(added + r * n + i, part), part);
        return load_widened(total + r * n + i, part);
      });
      row = total;
    } else if (mean) {
      sum_rows<count>(n, center,
                      [&](int r, int64_t i, auto part) { return load_widened(row + r * n + i, part); });
    }
    for (int r = 0; r < count; ++r) center[r] = mean ? center[r] / values : A(0);
    Lanes<A> centers[count];
    for (int r = 0; r < count; ++r) centers[r] = fill(center[r]);
    sum_rows<count>(n, scale, [&](int r, int64_t i, auto part) {
      const Lanes<A> deviation = load_widened(row + r * n + i, part) - centers[r];
      return existing<A>(deviation * deviation, part);
    });
    for (int r = 0; r < count; ++r) scale[r] = A(1) / elementwise::sqrt(scale[r] / values + eps);
    scale_some_rows<count>(row, n, weight, bias, center, scale, y + from);
    for (int r = 0; r < count; ++r) rstd[first + r] = scale[r];
    if (mean)
      for (int r = 0; r < count; ++r) mean[first + r] = center[r];
  }
};

template <class T, class D>
void forward(const T* x, const D* delta, int64_t rows, int64_t n, const accumulator_of<T>* weight,
             const accumulator_of<T>* bias, accumulator_of<T> eps, T* sum, T* y, accumulator_of<T>* mean,
             accumulator_of<T>* rstd) {
  const Forward<T, D> call{x, delta, n, weight, bias, eps, sum, y, mean, rstd};
  int64_t r = 0;
  for (; r + forward_rows<T> <= rows; r += forward_rows<T>) call.template rows<forward_rows<T>>(r);
  for (; r < rows; ++r) call.template rows<1>(r);
}

template <class T>
void scale_rows(const T* x, int64_t rows, int64_t n, const accumulator_of<T>* weight,
                const accumulator_of<T>* bias, const accumulator_of<T>* mean, const accumulator_of<T>* rstd,
                T* y) {
  constexpr accumulator_of<T> zero = 0;
  for (int64_t r = 0; r < rows; ++r)
    scale_some_rows<1>(x + r * n, n, weight, bias, mean ? mean + r : &zero, rstd + r, y + r * n);
}

template <class T, class G>
struct Backward {
  using A = accumulator_of<T>;
  const T *x, *dy, *base;
  int64_t n;
  const A *weight, *mean, *rstd;
  G* dx;
  T* rounded_dx;
  A *dweight, *dbias;

  /// With h = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - h mean(g h)).
  template <int count>
  [[gnu::always_inline]] void rows(int64_t first) const {
    const T *const row = x + first * n, *const gradient = dy + first * n;
    Lanes<A> center[count], scale[count];
    for (int r = 0; r < count; ++r)
      center[r] = fill(mean ? mean[first + r] : A(0)), scale[r] = fill(rstd[first + r]);
    const auto normalized = [&](int r, int64_t i, auto part) {
      return (load_widened(row + r * n + i, part) - center[r]) * scale[r];
    };
    const auto weighted = [&](const Lanes<A>& g, int64_t i, auto part) {
      return weight ? g * load_widened(weight + i, part) : g;
    };
    A mean_g[count], mean_gh[count];
    sums<count>(gradient, normalized, weighted, mean_g, mean_gh);
    if (!dx) return;
    const A inverse_n = A(1) / static_cast<A>(n);
    Lanes<A> g_means[count], gh_means[count];
    for (int r = 0; r < count; ++r)
      g_means[r] = fill(mean ? mean_g[r] * inverse_n : A(0)), gh_means[r] = fill(mean_gh[r] * inverse_n);
    for_vectors<A>(n, [&](int64_t i, auto part) {
      for (int r = 0; r < count; ++r) {
        const int64_t at = (first + r) * n + i;
        const Lanes<A> g = weighted(load_widened(gradient + r * n + i, part), i, part);
        Lanes<A> v = scale[r] * ((g - g_means[r]) - normalized(r, i, part) * gh_means[r]);
        if (base) v = load_widened(base + at, part) + v;
        store_narrowed(dx + at, v, part);
        if (rounded_dx) store_narrowed(rounded_dx + at, v, part);
      }
    });
  }

  /// The sums of g and g h of each row; adds dy h and dy to dweight and dbias.
  template <int count, class Normalized, class Weighted>
  [[gnu::always_inline]] void sums(const T* gradient, const Normalized& normalized, const Weighted& weighted,
                                   A* sum_g, A* sum_gh) const {
    Lanes<A> g[count][2], gh[count][2];
    for (int r = 0; r < count; ++r) g[r][0] = g[r][1] = gh[r][0] = gh[r][1] = fill(A(0));
    for_vector_pairs<A>(n, [&](int64_t i, auto part, auto second) {
      Lanes<A> dw = fill(A(0)), db = dw;
      if (dweight) dw = load_widened(dweight + i, part);
      if (dbias) db = load_widened(dbias + i, part);
      for (int r = 0; r < count; ++r) {
        const Lanes<A> d = load_widened(gradient + r * n + i, part), h = normalized(r, i, part),
                       product = weighted(d, i, part);
        g[r][second] = g[r][second] + product;
        gh[r][second] = gh[r][second] + product * h;
        if (dweight) dw = dw + d * h;
        if (dbias) db = db + d;
      }
      if (dweight) store_narrowed(dweight + i, dw, part);
      if (dbias) store_narrowed(dbias + i, db, part);
    });
    for (int r = 0; r < count; ++r) {
      sum_g[r] = fold<A>(g[r][0] + g[r][1], Add());
      sum_gh[r] = fold<A>(gh[r][0] + gh[r][1], Add());
    }
  }
};

/// `call` is a copy, which no store can change.
template <class T, class G>
[[gnu::always_inline]] inline void run(Backward<T, G> call, int64_t rows) {
  int64_t r = 0;
  for (; r + backward_rows<T> <= rows; r += backward_rows<T>) call.template rows<backward_rows<T>>(r);
  for (; r < rows; ++r) call.template rows<1>(r);
}

template <class T>
void backward(const T* x, const T* dy, const T* base, int64_t rows, int64_t n,
              const accumulator_of<T>* weight, const accumulator_of<T>* mean, const accumulator_of<T>* rstd,
              T* dx, accumulator_of<T>* dweight, accumulator_of<T>* dbias) {
  run(Backward<T, T>{x, dy, base, n, weight, mean, rstd, dx, nullptr, dweight, dbias}, rows);
}

template <class T>
void backward_wide(const T* x, const T* dy, const T* base, int64_t rows, int64_t n,
                   const accumulator_of<T>* weight, const accumulator_of<T>* mean,
                   const accumulator_of<T>* rstd, accumulator_of<T>* dx, T* rounded_dx,
                   accumulator_of<T>* dweight, accumulator_of<T>* dbias) {
  run(Backward<T, accumulator_of<T>>{x, dy, base, n, weight, mean, rstd, dx, rounded_dx, dweight, dbias},
      rows);
}

template <class T>
constexpr NormalizationRows<T> table{&forward<T, T>, &forward<T, accumulator_of<T>>, &scale_rows<T>,
                                     &backward<T>, &backward_wide<T>};

}  // namespace

const NormalizationRows<float>& normalization_rows_f32() {
  return table<float>;
}
const NormalizationRows<double>& normalization_rows_f64() {
  return table<double>;
}
const NormalizationRows<bfloat16>& normalization_rows_bf16() {
  return table<bfloat16>;
}
const NormalizationRows<float16>& normalization_rows_f16() {
  return table<float16>;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
