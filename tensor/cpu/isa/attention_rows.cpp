// Rows of attention weights: softmax over the visible keys, its recomputation and derivative, masks and
// dropout. A row stays in the cache between the products before and after it.

#include "tensor/cpu/attention/attention_rows.h"

#include "tensor/cpu/isa/lanes.h"
#include "tensor/cpu/isa/philox_lanes.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/elementwise/exp.h"
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

/// Elements i .. i + left of s, and `identity` in the lanes after them.
template <class A>
[[gnu::always_inline]] inline Lanes<A> first_lanes(const A* s, int left, A identity) {
  return lanes_of<A>(0, [=](int64_t j) {
    const A value = s[j];
    return static_cast<int>(j) < left ? value : identity;
  });
}

/// n elements combined into the lanes of a vector; their rows have space for whole vectors.
template <class A, class Combine>
[[gnu::always_inline]] inline Lanes<A> combined(const A* s, int64_t n, A identity, const Combine& combine) {
  Lanes<A> first = fill(identity), second = first;
  int64_t i = 0;
  for (; i + 2 * lanes<A> <= n; i += 2 * lanes<A>) {
    first = combine(first, load(s + i));
    second = combine(second, load(s + i + lanes<A>));
  }
  if (i + lanes<A> <= n) {
    first = combine(first, load(s + i));
    i += lanes<A>;
  }
  if (i < n) second = combine(second, first_lanes(s + i, static_cast<int>(n - i), identity));
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
    lanes_of_rows[r] = rows[r].scale < 0
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

/// e^x for x that is above 0 by rounding alone: `elementwise::exp` up to x = 88, and from there on its result
/// for 88.
/// @{
TESSERA_ELEMENT float exp_of_weight(float x) {
  constexpr float smallest = -0x1.5d589cp+6f;  // from here on the result is a normal number
  constexpr float largest = 88.0f;             // below the exponent's end
  constexpr float magic = 0x1.8p23f;
  x = x > largest ? largest : x;
  const float shifted = elementwise::fma(x, 0x1.715476p0f, magic), n = shifted - magic;
  const float r = elementwise::fma(n, 0x1.05c610p-29f, elementwise::fma(n, -0x1.62e430p-1f, x));
  const uint32_t power = (elementwise::bits_of(shifted) << 23) + (127u << 23);
  const float result = (1.0f + elementwise::expm1_core(r)) * elementwise::from_bits(power);
  return x < smallest ? 0.0f : result;
}
TESSERA_ELEMENT double exp_of_weight(double x) {
  return elementwise::exp(x);
}
/// @}

/// Stores a vector of values, rounded to Out.
struct StoreRounded {
  template <class A, class Out>
  [[gnu::always_inline]] static void store(const A (&values)[lanes<A>], Out* to) {
#pragma GCC unroll 1
    for (int j = 0; j < lanes<A>; ++j) to[j] = narrow<Out>(values[j]);
  }
};

#if defined(__AVX512F__)
/// The same bits, by the instruction of AVX512-BF16, for which this file is not compiled.
struct StoreBf16 {
  [[gnu::always_inline]] static void store(const float (&values)[16], bfloat16* to) {
    typedef uint16_t Rounded __attribute__((vector_size(32)));
    Rounded rounded;
    asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(load(values)));
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

/// s <- exp(scale s - shift), 0 after n elements. Returns the lanes of the sum: vectors alternate between two
/// accumulators.
template <class A>
[[gnu::always_inline]] inline Lanes<A> sum_of_exponentials(A* s, int64_t n, A scale, A shift) {
  Lanes<A> first = fill(A(0)), second = first;
  const auto exponential = [=](A product) { return exp_of_weight(elementwise::fma(product, scale, -shift)); };
  const auto whole = [=](Lanes<A>& sum, A* at) {
    const Lanes<A> e = lanes_of<A>(0, [=](int64_t j) { return exponential(at[j]); });
    store(at, e);
    sum = sum + e;
  };
  const auto part = [=](Lanes<A>& sum, A* at, int left) {
    const Lanes<A> e = lanes_of<A>(0, [=](int64_t j) {
      const A value = exponential(at[j]);
      return static_cast<int>(j) < left ? value : A(0);
    });
    store(at, e);
    sum = sum + e;
  };
  int64_t i = 0;
  for (; i + 2 * lanes<A> <= n; i += 2 * lanes<A>) {
    whole(first, s + i);
    whole(second, s + i + lanes<A>);
  }
  const int left = static_cast<int>(n - i);
  if (left > 0) part(first, s + i, left);
  if (left > lanes<A>) part(second, s + i + lanes<A>, left - static_cast<int>(lanes<A>));
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
[[gnu::always_inline]] inline void compute_weights(const AttentionRow<A>* rows, int64_t count,
                                                   int64_t leading, A* s, const A* factors, Out* out,
                                                   A* largest, A* log_sum) {
  constexpr A infinity = elementwise::Floating<A>::infinity;
  A shifts[attention_tile], sums[attention_tile], inverse[attention_tile];
  Lanes<A> lanes_of_sums[attention_tile];
  largest_products(rows, count, leading, s, shifts);
  for (int64_t r = 0; r < count; ++r) {
    lanes_of_sums[r] = fill(A(0));
    if (shifts[r] != -infinity)
      lanes_of_sums[r] = sum_of_exponentials(s + r * leading, rows[r].visible, rows[r].scale, shifts[r]);
  }
  fold_each(lanes_of_sums, count, Add(), sums);
  for (int64_t r = 0; r < count; ++r) sums[r] = shifts[r] == -infinity ? A(1) : sums[r];
  for (int64_t r = count; r < padded_length<A>(count); ++r) sums[r] = 1;
  for (int64_t r = 0; r < count; r += lanes<A>) {
#pragma GCC unroll 1
    for (int j = 0; j < lanes<A>; ++j) inverse[r + j] = A(1) / sums[r + j];
#pragma GCC unroll 1
    for (int j = 0; j < lanes<A>; ++j) sums[r + j] = elementwise::log(sums[r + j]);
  }
  for (int64_t r = 0; r < count; ++r) {
    const A* const row = s + r * leading;
    const A* const drop = factors ? factors + r * leading : nullptr;
    Out* const to = out + r * leading;
    const int64_t padded = shifts[r] == -infinity ? 0 : padded_length<A>(rows[r].visible);
    const A scale = inverse[r];
    for (int64_t i = 0; i < padded; i += lanes<A>) {
      A values[lanes<A>];
#pragma GCC unroll 1
      for (int j = 0; j < lanes<A>; ++j) values[j] = row[i + j] * scale;
      if (drop) {
#pragma GCC unroll 1
        for (int j = 0; j < lanes<A>; ++j) values[j] *= drop[i + j];
      }
      Store::store(values, to + i);
    }
    zeros<A>(to, padded, rows[r].width);
    largest[r] = shifts[r];
    log_sum[r] = sums[r];
  }
}

/// One vector of `score_gradients`, of which `left` elements are visible: all of them, unless `tail`.
template <class Store, bool drop, bool tail, class A, class Out>
[[gnu::always_inline]] inline void gradient_lanes(const RowGradients<A>& g, const A* s, const A* dp,
                                                  const A* factors, int left, Out* p, Out* ds) {
  A weights[lanes<A>], gradients[lanes<A>];
#pragma GCC unroll 1
  for (int j = 0; j < lanes<A>; ++j) {
    const A weight = exp_of_weight(elementwise::fma(s[j], g.scale, -g.largest) - g.log_sum);
    const A factor = drop ? factors[j] : A(1);
    const A gradient = weight * (dp[j] * factor - g.dot) * g.gradient_scale;
    weights[j] = tail && j >= left ? A(0) : weight * factor;
    gradients[j] = tail && j >= left ? A(0) : gradient;
  }
  Store::store(weights, p);
  Store::store(gradients, ds);
}

template <class Store, bool drop, class A, class Out>
[[gnu::always_inline]] inline void gradient_row(const RowGradients<A>& g, int64_t n, const A* s, const A* dp,
                                                const A* factors, Out* p, Out* ds) {
  int64_t i = 0;
  for (; i + lanes<A> <= n; i += lanes<A>)
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
    for (; i + lanes<A> <= n; i += lanes<A>) {
      A values[lanes<A>];
      std::memcpy(values, from + i, sizeof values);
      Store::store(values, to + i);
    }
    for (; i < n; ++i) to[i] = narrow<Out>(from[i]);
  }
}

template <class A, class Out>
void weights(const AttentionRow<A>* rows, int64_t count, int64_t leading, A* s, const A* factors, Out* out,
             A* largest, A* log_sum) {
  compute_weights<StoreRounded>(rows, count, leading, s, factors, out, largest, log_sum);
}
template <class A, class Out>
void score_gradients(const ScoreGradients<A, Out>& tile) {
  compute_score_gradients<StoreRounded>(tile);
}
template <class A, class Out>
void round_rows(const A* from, int64_t from_stride, Out* to, int64_t to_stride, int64_t rows, int64_t n) {
  round_vectors<StoreRounded>(from, from_stride, to, to_stride, rows, n);
}
#if defined(__AVX512F__)
void round_rows_bf16(const float* from, int64_t from_stride, bfloat16* to, int64_t to_stride, int64_t rows,
                     int64_t n) {
  round_vectors<StoreBf16>(from, from_stride, to, to_stride, rows, n);
}
void weights_bf16(const AttentionRow<float>* rows, int64_t count, int64_t leading, float* s,
                  const float* factors, bfloat16* out, float* largest, float* log_sum) {
  compute_weights<StoreBf16>(rows, count, leading, s, factors, out, largest, log_sum);
}
void score_gradients_bf16(const ScoreGradients<float, bfloat16>& tile) {
  compute_score_gradients<StoreBf16>(tile);
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

/// Elements of which the factors are computed at once.
constexpr int64_t factor_group = 4 * philox_lanes;

/// Words as factors.
template <class A>
class Factors {
 public:
  explicit Factors(const MaskRow& mask)
      : threshold_(mask.threshold > 0xffffffffu ? 0xffffffffu : static_cast<uint32_t>(mask.threshold)),
        scale_(static_cast<A>(mask.scale)) {}

  /// The whole vectors of which one of the first `left` elements is a part.
  [[gnu::always_inline]] void store(const uint32_t (&words)[factor_group], int64_t left, A* out) const {
    for (int64_t i = 0; i < factor_group && i < left; i += lanes<A>)
#pragma GCC unroll 1
      for (int j = 0; j < lanes<A>; ++j) out[i + j] = words[i + j] < threshold_ ? A(0) : scale_;
  }

 private:
  uint32_t threshold_;
  A scale_;
};

/// A row that begins with any word of a block.
template <class A>
void factors_of_row(const MaskRow& mask, const PhiloxKeys& keys, const Factors<A>& factors, uint64_t element,
                    int64_t n, A* out) {
  uint32_t words[factor_group];
  A group[factor_group];
  const auto lead = static_cast<int64_t>(element % 4);  // words of the first block before `element`
  uint64_t block = element / 4;
  for (int64_t done = -lead; done < n; done += factor_group, block += philox_lanes) {
    philox_words<1>(keys, block, mask.sample, mask.step, words);
    factors.store(words, factor_group, group);
    const int64_t begin = done < 0 ? -done : 0, end = n - done < factor_group ? n - done : factor_group;
    std::memcpy(out + done + begin, group + begin, static_cast<size_t>(end - begin) * sizeof(A));
  }
  for (int64_t i = n; n > 0 && i < padded_length<A>(n); ++i) out[i] = A(0);
}

/// Two rows at a time.
template <class A>
void dropout_factors(const MaskRow& mask, const AttentionRow<A>* rows, int64_t count, int64_t step,
                     int64_t leading, A* out) {
  const PhiloxKeys keys(mask.key);
  const Factors<A> factors(mask);
  const auto row_step = static_cast<uint64_t>(step);
  for (int64_t r = 0; r < count; r += 2) {
    const uint64_t element = mask.first + static_cast<uint64_t>(r) * row_step;
    A *const first = out + r * leading, *const second = first + leading;
    const int64_t n = rows[r].visible, m = r + 1 < count ? rows[r + 1].visible : 0;
    if (element % 4 == 0 && row_step % 4 == 0) {
      const uint64_t block = element / 4, other = block + row_step / 4;
      for (int64_t done = 0; done < (n > m ? n : m); done += factor_group) {
        const uint64_t blocks = static_cast<uint64_t>(done) / 4;
        uint32_t words[2][factor_group];
        philox_words(keys, block + blocks, other + blocks, mask.sample, mask.step, words[0], words[1]);
        factors.store(words[0], n - done, first + done);
        factors.store(words[1], m - done, second + done);
      }
      continue;
    }
    factors_of_row(mask, keys, factors, element, n, first);
    if (m > 0) factors_of_row(mask, keys, factors, element + row_step, m, second);
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
  static constexpr AttentionRows<float, float> rows{&weights<float, float>,  &score_gradients<float, float>,
                                                    &dots<float, float>,     &round_rows<float, float>,
                                                    &dropout_factors<float>, &add_mask<float>,
                                                    &add_distances<float>,   &hide<float>};
  return &rows;
}

const AttentionRows<double, double>* attention_rows_f64() {
  static constexpr AttentionRows<double, double> rows{
      &weights<double, double>, &score_gradients<double, double>,
      &dots<double, double>,    &round_rows<double, double>,
      &dropout_factors<double>, &add_mask<double>,
      &add_distances<double>,   &hide<double>};
  return &rows;
}

const AttentionRows<float, bfloat16>* attention_rows_bf16() {
  static constexpr AttentionRows<float, bfloat16> rows{
      &weights<float, bfloat16>, &score_gradients<float, bfloat16>,
      &dots<float, bfloat16>,    &round_rows<float, bfloat16>,
      &dropout_factors<float>,   &add_mask<float>,
      &add_distances<float>,     &hide<float>};
#if defined(__AVX512F__)
  static constexpr AttentionRows<float, bfloat16> converting{
      &weights_bf16,           &score_gradients_bf16, &dots<float, bfloat16>, &round_rows_bf16,
      &dropout_factors<float>, &add_mask<float>,      &add_distances<float>,  &hide<float>};
  if (current_isa() >= Isa::avx512_bf16) return &converting;
#endif
  return &rows;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
