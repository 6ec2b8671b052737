// Rows of attention weights: softmax over ranges of the visible keys, its recomputation and derivative, masks
// and dropout. A row stays in the cache between the products before and after it.

#include "tensor/cpu/attention/attention_rows.h"

#include "tensor/cpu/isa/dropout_factors.h"
#include "tensor/cpu/isa/lanes.h"
#include "tensor/cpu/isa/weight_exponential.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/elementwise/log.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class A>
constexpr int64_t lanes = lane_count<A>;

/// n rounded up to whole vectors of 64 bytes. Rows have space for that, so whole vectors are stored.
template <class A>
constexpr int64_t padded_length(int64_t n) {
  return (n + lanes<A> - 1) / lanes<A> * lanes<A>;
}

/// The first `left` elements of s, which has space for a whole vector, and `identity` after them.
template <class A>
[[gnu::always_inline]] inline Lanes<A> first_lanes(const A* s, int left, A identity) {
  return lanes_of<A>(0, [=](int64_t j) {
    const A value = s[j];
    return static_cast<int>(j) < left ? value : identity;
  });
}

/// n > 0 elements combined into the lanes of a vector; their rows have space for whole vectors. The last
/// vector counts as a part of one in any case, so that neighbouring rows take the same branches.
template <class A, class Combine>
[[gnu::always_inline]] inline Lanes<A> combined(const A* s, int64_t n, A identity, const Combine& combine) {
  Lanes<A> first = fill(identity), second = first;
  int64_t i = 0;
  for (; i + 2 * lanes<A> < n; i += 2 * lanes<A>) {
    first = combine(first, load(s + i));
    second = combine(second, load(s + i + lanes<A>));
  }
  if (i + lanes<A> < n) {
    first = combine(first, load(s + i));
    i += lanes<A>;
  }
  second = combine(second, first_lanes(s + i, static_cast<int>(n - i), identity));
  return combine(first, second);
}

/// The largest of the products scale s of each row; minus infinity where a mask hides every key, or none is
/// visible. A NaN beside numbers may be lost here, since exp of the row gives NaN again.
template <class A>
[[gnu::always_inline]] inline void largest_products(const AttentionRow<A>* rows, int64_t count,
                                                    int64_t leading, const A* s, A* largest) {
  constexpr A infinity = elementwise::Floating<A>::infinity;
  Lanes<A> lanes_of_rows[attention_tile];
  for (int64_t r = 0; r < count; ++r)
    lanes_of_rows[r] = rows[r].scale < 0 || rows[r].visible == 0
                           ? fill(-infinity)
                           : combined(s + r * leading, rows[r].visible, -infinity, LargerOrAny());
  fold_each(lanes_of_rows, count, LargerOrAny(), largest);
  for (int64_t r = 0; r < count; ++r) {
    const A* const row = s + r * leading;
    const int64_t n = rows[r].visible;
    if (rows[r].scale < 0 && n > 0)
      largest[r] = fold<A>(combined(row, n, infinity, SmallerOrAny()), SmallerOrAny());
    largest[r] = n > 0 ? rows[r].scale * largest[r] : -infinity;
    if (largest[r] == -infinity) {
      int64_t i = 0;
      while (i < n && row[i] == row[i]) ++i;
      if (i < n) largest[r] = row[i];
    }
  }
}

#if defined(__AVX512F__)
/// Of the first `left` lanes, or of all.
[[gnu::always_inline]] inline __mmask16 first_mask(int64_t left) {
  return static_cast<__mmask16>(left >= 16 ? 0xffffu : (1u << left) - 1);
}
#endif

/// v with 0 from lane `left` on.
template <class A>
[[gnu::always_inline]] inline Lanes<A> first_of(const Lanes<A>& v, int left) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<A, float>) return (Lanes<A>)_mm512_maskz_mov_ps(first_mask(left), (__m512)v);
#endif
  A lane[lanes<A>];
  store(lane, v);
  return lanes_of<A>(0, [=](int64_t j) { return static_cast<int>(j) < left ? lane[j] : A(0); });
}

/// The same where s ends with its `count` elements. On AVX-512 there is no copy in memory, which a vector
/// could only read once it has left the store buffer.
template <class A>
[[gnu::always_inline]] inline Lanes<A> load_first(const A* s, int64_t count, A identity) {
  if (count >= lanes<A>) return load(s);
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<A, float>)
    return (Lanes<A>)_mm512_mask_loadu_ps(_mm512_set1_ps(identity), first_mask(count), s);
#endif
  A lane[lanes<A>];
  for (int64_t j = 0; j < lanes<A>; ++j) lane[j] = j < count ? s[j] : identity;
  return load(lane);
}
template <class A>
[[gnu::always_inline]] inline void store_first(A* to, int64_t count, const Lanes<A>& v) {
  if (count >= lanes<A>) return store(to, v);
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<A, float>) return _mm512_mask_storeu_ps(to, first_mask(count), (__m512)v);
#endif
  A lane[lanes<A>];
  store(lane, v);
  for (int64_t j = 0; j < count; ++j) to[j] = lane[j];
}

/// Stores a vector, rounded to Out.
struct StoreRounded {
  template <class A, class Out>
  [[gnu::always_inline]] static void vector(const Lanes<A>& values, Out* to) {
    if constexpr (std::is_same_v<A, Out>) {
      store(to, values);
    } else {
      A lane[lanes<A>];
      store(lane, values);
#pragma GCC unroll 1
      for (int j = 0; j < lanes<A>; ++j) to[j] = narrow<Out>(lane[j]);
    }
  }
};

#if defined(__AVX512F__)
/// The same bits, by the instruction of AVX512-BF16, for which this file is not compiled.
struct StoreBf16 {
  template <class A>
  [[gnu::always_inline]] static void vector(const Lanes<A>& values, bfloat16* to) {
    typedef uint16_t Rounded __attribute__((vector_size(32)));
    Rounded rounded;
    asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(values));
    std::memcpy(to, &rounded, sizeof rounded);
  }
};
#endif

template <class A, class Out>
[[gnu::always_inline]] inline void zeros(Out* out, int64_t begin, int64_t end) {
  for (; begin % lanes<A> != 0 && begin < end; ++begin) out[begin] = Out{};
  for (; begin < end; begin += lanes<A>)
    for (int64_t j = 0; j < lanes<A>; ++j) out[begin + j] = Out{};
}

/// A vector of weights, of which `left` are visible: all of them, unless `tail`. Adds them to `sum`.
template <class Store, bool drop, bool tail, class A, class Out>
[[gnu::always_inline]] inline void weight_lanes(const A* s, const A* factors, int left, A scale, A shift,
                                                Out* out, Lanes<A>& sum) {
  Lanes<A> e = exponentials<Out>(s, scale, shift, A(0));
  if constexpr (tail) e = first_of<A>(e, left);
  sum = sum + e;
  if constexpr (drop) e = e * load(factors);
  Store::template vector<A>(e, out);
}

/// out <- exp(scale s - shift) factors, 0 after n elements up to whole vectors. Returns the lanes of the sum
/// without the factors: vectors alternate between two accumulators.
template <class Store, bool drop, class A, class Out>
[[gnu::always_inline]] inline Lanes<A> weights_of_row(const A* s, const A* factors, int64_t n, A scale,
                                                      A shift, Out* out) {
  Lanes<A> first = fill(A(0)), second = first;
  const auto at = [=](int64_t i) { return drop ? factors + i : nullptr; };
  int64_t i = 0;
  for (; i + 2 * lanes<A> < n; i += 2 * lanes<A>) {
    weight_lanes<Store, drop, false>(s + i, at(i), 0, scale, shift, out + i, first);
    const int64_t next = i + lanes<A>;
    weight_lanes<Store, drop, false>(s + next, at(next), 0, scale, shift, out + next, second);
  }
  if (i + lanes<A> < n) {
    weight_lanes<Store, drop, false>(s + i, at(i), 0, scale, shift, out + i, first);
    i += lanes<A>;
    weight_lanes<Store, drop, true>(s + i, at(i), static_cast<int>(n - i), scale, shift, out + i, second);
  } else if (n > 0) {
    weight_lanes<Store, drop, true>(s + i, at(i), static_cast<int>(n - i), scale, shift, out + i, first);
  }
  return first + second;
}

/// What a row of `score_gradients` has in common.
template <class A>
struct RowGradients {
  A scale, gradient_scale, largest, log_sum, dot;
};

/// Each step goes over all rows, so that the dependent operations of one row overlap with those of the
/// others.
template <class Store, class A, class Out>
[[gnu::always_inline]] inline void compute_weights(const WeightRows<A, Out>& t) {
  constexpr A infinity = elementwise::Floating<A>::infinity;
  A shifts[attention_tile], sums[attention_tile];
  Lanes<A> lanes_of_sums[attention_tile];
  largest_products(t.rows, t.count, t.leading, t.s, shifts);
  if (!t.is_first) {
    for (int64_t r = 0; r < t.count; ++r) {
      const A before = t.largest[r];
      shifts[r] = before > shifts[r] || before != before ? before : shifts[r];  // a NaN stays
    }
  }
  for (int64_t r = 0; r < t.count; ++r) {
    const AttentionRow<A>& row = t.rows[r];
    const int64_t at = r * t.leading, n = shifts[r] == -infinity ? 0 : row.visible;
    if (t.factors)
      lanes_of_sums[r] =
          weights_of_row<Store, true>(t.s + at, t.factors + at, n, row.scale, shifts[r], t.out + at);
    else
      lanes_of_sums[r] =
          weights_of_row<Store, false>(t.s + at, t.factors, n, row.scale, shifts[r], t.out + at);
    zeros<A>(t.out + at, padded_length<A>(n), row.width);
  }
  if (t.is_first) {
    fold_each(lanes_of_sums, t.count, Add(), t.sums);
    for (int64_t r = 0; r < t.count; ++r) t.largest[r] = shifts[r];
    return;
  }
  fold_each(lanes_of_sums, t.count, Add(), sums);
  for (int64_t r = 0; r < t.count; r += lanes<A>) {
    const int64_t count = t.count - r;
    A before[lanes<A>], now[lanes<A>], rescale[lanes<A>], sum[lanes<A>], add[lanes<A>];
    store(before, load_first(t.largest + r, count, A(0)));
    store(now, load_first(shifts + r, count, A(0)));
    store(sum, load_first(t.sums + r, count, A(0)));
    store(add, load_first(sums + r, count, A(0)));
#pragma GCC unroll 1
    for (int j = 0; j < lanes<A>; ++j) {
      const A factor = exp_of_weight<A>(before[j] - now[j]);
      rescale[j] = before[j] == now[j] ? A(1) : factor;
    }
    store_first<A>(t.rescale + r, count, load(rescale));
    store_first<A>(t.sums + r, count,
                   lanes_of<A>(0, [&](int64_t j) { return elementwise::fma(sum[j], rescale[j], add[j]); }));
    store_first<A>(t.largest + r, count, load(now));
  }
}

/// f of sums, and of 1 for rows without visible keys.
template <class A, class F>
[[gnu::always_inline]] inline void of_sums(int64_t count, const A* largest, const A* sums, A* to,
                                           const F& f) {
  constexpr A infinity = elementwise::Floating<A>::infinity;
  for (int64_t r = 0; r < count; r += lanes<A>) {
    A sum[lanes<A>], most[lanes<A>];
    store(sum, load_first(sums + r, count - r, A(1)));
    store(most, load_first(largest + r, count - r, A(0)));
    store_first<A>(to + r, count - r,
                   lanes_of<A>(0, [&](int64_t j) { return f(most[j] == -infinity ? A(1) : sum[j]); }));
  }
}
template <class A>
void invert(int64_t count, const A* largest, const A* sums, A* inverse) {
  of_sums(count, largest, sums, inverse, [](A sum) { return A(1) / sum; });
}
template <class A>
void take_logarithms(int64_t count, const A* largest, A* sums) {
  of_sums(count, largest, sums, sums, [](A sum) { return elementwise::log(sum); });
}

/// One vector of `score_gradients`, of which `left` elements are visible: all of them, unless `tail`.
template <class Store, bool drop, bool tail, class A, class Out>
[[gnu::always_inline]] inline void gradient_lanes(const RowGradients<A>& g, const A* s, const A* dp,
                                                  const A* factors, int left, Out* p, Out* ds) {
  Lanes<A> weights = exponentials<Out>(s, g.scale, g.largest, g.log_sum), gradients = load(dp);
  if constexpr (tail) weights = first_of<A>(weights, left);
  if constexpr (drop) gradients = gradients * load(factors);
  gradients = weights * ((gradients - fill(g.dot)) * fill(g.gradient_scale));
  if constexpr (tail) gradients = first_of<A>(gradients, left);
  if constexpr (drop) weights = weights * load(factors);
  Store::template vector<A>(weights, p);
  Store::template vector<A>(gradients, ds);
}

template <class Store, bool drop, class A, class Out>
[[gnu::always_inline]] inline void gradient_row(const RowGradients<A>& g, int64_t n, const A* s, const A* dp,
                                                const A* factors, Out* p, Out* ds) {
  int64_t i = 0;
  for (; i + lanes<A> < n; i += lanes<A>)
    gradient_lanes<Store, drop, false>(g, s + i, dp + i, drop ? factors + i : nullptr,
                                       static_cast<int>(n - i), p + i, ds + i);
  if (i < n)
    gradient_lanes<Store, drop, true>(g, s + i, dp + i, drop ? factors + i : nullptr, static_cast<int>(n - i),
                                      p + i, ds + i);
}

template <class Store, class A, class Out>
[[gnu::always_inline]] inline void compute_score_gradients(const ScoreGradients<A, Out>& t) {
  for (int64_t r = 0; r < t.count; ++r) {
    const AttentionRow<A>& row = t.rows[r];
    const int64_t at = r * t.leading,
                  n = t.largest[r] == -elementwise::Floating<A>::infinity ? 0 : row.visible;
    const RowGradients<A> g{row.scale, row.gradient_scale, t.largest[r], t.log_sum[r], t.dots[r]};
    if (t.factors)
      gradient_row<Store, true>(g, n, t.s + at, t.dp + at, t.factors + at, t.p + at, t.ds + at);
    else
      gradient_row<Store, false>(g, n, t.s + at, t.dp + at, t.factors, t.p + at, t.ds + at);
    zeros<A>(t.p + at, padded_length<A>(n), row.width);
    zeros<A>(t.ds + at, padded_length<A>(n), row.width);
  }
}

template <class Store, class A, class Out>
[[gnu::always_inline]] inline void round_vectors(const A* from, int64_t from_stride, Out* to,
                                                 int64_t to_stride, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    int64_t i = 0;
    for (; i + lanes<A> <= n; i += lanes<A>) Store::template vector<A>(load(from + i), to + i);
    for (; i < n; ++i) to[i] = narrow<Out>(from[i]);
  }
}

/// to <- from factors[r], rounded.
template <class Store, class A, class Out>
[[gnu::always_inline]] inline void scale_vectors(const A* from, int64_t from_stride, const A* factors,
                                                 Out* to, int64_t to_stride, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    const A factor = factors[r];
    int64_t i = 0;
    for (; i + lanes<A> <= n; i += lanes<A>) Store::template vector<A>(load(from + i) * fill(factor), to + i);
    for (; i < n; ++i) to[i] = narrow<Out>(from[i] * factor);
  }
}

template <class A, class Out>
void weights(const WeightRows<A, Out>& tile) {
  compute_weights<StoreRounded>(tile);
}
template <class A, class Out>
void score_gradients(const ScoreGradients<A, Out>& tile) {
  compute_score_gradients<StoreRounded>(tile);
}
template <class A, class Out>
void round_rows(const A* from, int64_t from_stride, Out* to, int64_t to_stride, int64_t rows, int64_t n) {
  round_vectors<StoreRounded>(from, from_stride, to, to_stride, rows, n);
}
template <class A, class Out>
void scale_rows(const A* from, int64_t from_stride, const A* factors, Out* to, int64_t to_stride,
                int64_t rows, int64_t n) {
  scale_vectors<StoreRounded>(from, from_stride, factors, to, to_stride, rows, n);
}
#if defined(__AVX512F__)
void weights_bf16(const WeightRows<float, bfloat16>& tile) {
  compute_weights<StoreBf16>(tile);
}
void score_gradients_bf16(const ScoreGradients<float, bfloat16>& tile) {
  compute_score_gradients<StoreBf16>(tile);
}
void round_rows_bf16(const float* from, int64_t from_stride, bfloat16* to, int64_t to_stride, int64_t rows,
                     int64_t n) {
  round_vectors<StoreBf16>(from, from_stride, to, to_stride, rows, n);
}
void scale_rows_bf16(const float* from, int64_t from_stride, const float* factors, bfloat16* to,
                     int64_t to_stride, int64_t rows, int64_t n) {
  scale_vectors<StoreBf16>(from, from_stride, factors, to, to_stride, rows, n);
}
#endif

/// A vector of elements, widened in registers.
template <class A, class T>
[[gnu::always_inline]] inline Lanes<A> widened(const T* x) {
  if constexpr (std::is_same_v<A, T>) {
    return load(x);
  } else if constexpr (register_bytes == 64) {
    typedef uint16_t Stored __attribute__((vector_size(register_bytes / 2)));
    Stored stored;
    std::memcpy(&stored, x, sizeof stored);
    return (Lanes<A>)(__builtin_convertvector(stored, Register<uint32_t>) << 16);
  } else {
    return lanes_of<A>(0, [x](int64_t i) { return widen<A>(x[i]); });
  }
}

/// As `sum_lanes`: vectors alternate between two accumulators.
template <class A, class T>
void dots(const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t rows, int64_t n, A* out) {
  constexpr int64_t group = 8;  // rows reduced by one call of `fold_each`
  Lanes<A> sums[group];
  for (int64_t r = 0; r < rows; ++r, a += a_stride, b += b_stride) {
    Lanes<A> first = fill(A(0)), second = first;
    int64_t i = 0;
    for (; i + 2 * lanes<A> <= n; i += 2 * lanes<A>) {
      first = first + widened<A>(a + i) * widened<A>(b + i);
      second = second + widened<A>(a + i + lanes<A>) * widened<A>(b + i + lanes<A>);
    }
    if (i < n) {
      A tail[2 * lanes<A>] = {};
      for (int64_t j = i; j < n; ++j) tail[j - i] = widen<A>(a[j]) * widen<A>(b[j]);
      first = first + load(tail);
      second = second + load(tail + lanes<A>);
    }
    sums[r % group] = first + second;
    if (r % group == group - 1 || r == rows - 1)
      fold_each(sums, r % group + 1, Add(), out + r / group * group);
  }
}

template <class A>
void add_mask(const A* mask, int64_t step, int64_t n, A scale, A* s) {
  for (int64_t i = 0; i < n; ++i) s[i] = elementwise::fma(s[i], scale, mask[i * step]);
}

template <class A>
void add_distances(A slope, int64_t distance, int64_t n, A scale, A* s) {
  const A first = static_cast<A>(distance);
  const int count = static_cast<int>(n);
  for (int i = 0; i < count; ++i)
    s[i] = elementwise::fma(s[i], scale, -slope * elementwise::abs(first - static_cast<A>(i)));
}

template <class A>
void hide(const bool* visible, int64_t step, int64_t n, A scale, A* s) {
  for (int64_t i = 0; i < n; ++i)
    s[i] = visible[i * step] ? s[i] * scale : -elementwise::Floating<A>::infinity;
}

}  // namespace

const AttentionRows<float, float>* attention_rows_f32() {
  static constexpr AttentionRows<float, float> rows{&weights<float, float>,    &invert<float>,
                                                    &take_logarithms<float>,   &scale_rows<float, float>,
                                                    &scale_rows<float, float>, &score_gradients<float, float>,
                                                    &dots<float, float>,       &round_rows<float, float>,
                                                    &dropout_factors<float>,   &add_mask<float>,
                                                    &add_distances<float>,     &hide<float>};
  return &rows;
}

const AttentionRows<double, double>* attention_rows_f64() {
  static constexpr AttentionRows<double, double> rows{
      &weights<double, double>,    &invert<double>,
      &take_logarithms<double>,    &scale_rows<double, double>,
      &scale_rows<double, double>, &score_gradients<double, double>,
      &dots<double, double>,       &round_rows<double, double>,
      &dropout_factors<double>,    &add_mask<double>,
      &add_distances<double>,      &hide<double>};
  return &rows;
}

const AttentionRows<float, bfloat16>* attention_rows_bf16() {
  static constexpr AttentionRows<float, bfloat16> rows{
      &weights<float, bfloat16>,    &invert<float>,
      &take_logarithms<float>,      &scale_rows<float, float>,
      &scale_rows<float, bfloat16>, &score_gradients<float, bfloat16>,
      &dots<float, bfloat16>,       &round_rows<float, bfloat16>,
      &dropout_factors<float>,      &add_mask<float>,
      &add_distances<float>,        &hide<float>};
#if defined(__AVX512F__)
  static constexpr AttentionRows<float, bfloat16> converting{
      &weights_bf16,           &invert<float>,        &take_logarithms<float>, &scale_rows<float, float>,
      &scale_rows_bf16,        &score_gradients_bf16, &dots<float, bfloat16>,  &round_rows_bf16,
      &dropout_factors<float>, &add_mask<float>,      &add_distances<float>,   &hide<float>};
  if (current_isa() >= Isa::avx512_bf16) return &converting;
#endif
  return &rows;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
