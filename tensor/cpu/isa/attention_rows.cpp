// Rows of attention weights: softmax over the visible keys, its recomputation and derivative, masks and
// dropout. A row stays in the cache between the products before and after it.

#include "tensor/cpu/attention/attention_rows.h"

#include "tensor/cpu/isa/lanes.h"
#include "tensor/cpu/isa/philox_lanes.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/log.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

/// n rounded up to whole vectors of 64 bytes. Rows have space for that, so loops need no tail.
template <class A>
constexpr int64_t padded_length(int64_t n) {
  return (n + lane_count<A> - 1) / lane_count<A> * lane_count<A>;
}

template <class A>
[[gnu::always_inline]] inline void pad(A* s, int64_t n, A value) {
  for (int64_t i = n; i < padded_length<A>(n); ++i) s[i] = value;
}

/// All lanes of n elements combined, with two vectors of accumulators; n is a multiple of the lanes.
template <class A, class Combine>
[[gnu::always_inline]] inline A combined(const A* s, int64_t n, A identity, const Combine& combine) {
  constexpr int lanes = lane_count<A>;
  Lanes<A> first = fill(identity), second = first;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    first = combine(first, load(s + i));
    second = combine(second, load(s + i + lanes));
  }
  if (i < n) first = combine(first, load(s + i));
  return fold<A>(combine(first, second), combine);
}

template <class Out>
[[gnu::always_inline]] inline void zeros(Out* out, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) out[i] = Out{};
}

/// Each step goes over all rows, so that the dependent operations of one row overlap with those of the
/// others.
template <class A, class Out>
void weights(const AttentionRow<A>* rows, int64_t count, int64_t leading, A* s, const A* factors, Out* out,
             A* largest, A* log_sum) {
  constexpr A infinity = elementwise::Floating<A>::infinity;
  A largest_product[attention_tile], sums[attention_tile], inverse[attention_tile];
  for (int64_t r = 0; r < attention_tile; ++r) largest_product[r] = 0, sums[r] = 1;
  for (int64_t r = 0; r < count; ++r) {
    A* const row = s + r * leading;
    largest_product[r] = -infinity;
    if (rows[r].visible == 0) continue;
    pad(row, rows[r].visible, row[0]);
    const int64_t padded = padded_length<A>(rows[r].visible);
    largest_product[r] = rows[r].scale * (rows[r].scale < 0 ? combined(row, padded, infinity, Smaller())
                                                            : combined(row, padded, -infinity, Larger()));
  }
  for (int64_t r = 0; r < count; ++r) {
    A* const row = s + r * leading;
    const int64_t padded = padded_length<A>(rows[r].visible);
    const A scale = rows[r].scale, shift = largest_product[r];
    if (shift == -infinity) {  // a mask hides every key
      zeros(row, 0, padded);
      continue;
    }
    for (int64_t i = 0; i < padded; ++i) row[i] = elementwise::exp(elementwise::fma(row[i], scale, -shift));
    pad(row, rows[r].visible, A(0));
  }
  for (int64_t r = 0; r < count; ++r)
    if (largest_product[r] != -infinity)
      sums[r] = combined(s + r * leading, padded_length<A>(rows[r].visible), A(0), Add());
  for (int64_t r = 0; r < attention_tile; ++r) inverse[r] = A(1) / sums[r];
  for (int64_t r = 0; r < attention_tile; ++r) sums[r] = elementwise::log(sums[r]);
  for (int64_t r = 0; r < count; ++r) {
    const A* const row = s + r * leading;
    const A* const drop = factors ? factors + r * leading : nullptr;
    Out* const to = out + r * leading;
    const int64_t padded = padded_length<A>(rows[r].visible);
    const A scale = inverse[r];
    if (drop) {
      TESSERA_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < padded; ++i) to[i] = narrow<Out>(row[i] * scale * drop[i]);
    } else {
      TESSERA_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < padded; ++i) to[i] = narrow<Out>(row[i] * scale);
    }
    zeros(to, rows[r].visible, rows[r].width);
    largest[r] = largest_product[r];
    log_sum[r] = sums[r];
  }
}

template <class A, class Out>
void score_gradients(const AttentionRow<A>& row, const A* s, const A* dp, A largest, A log_sum, A dot,
                     const A* factors, Out* p, Out* ds) {
  const int64_t n = largest == -elementwise::Floating<A>::infinity ? 0 : row.visible,
                padded = padded_length<A>(n);
  const A scale = row.scale, gradient_scale = row.gradient_scale;
  if (factors) {
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < padded; ++i) {
      const A weight = elementwise::exp(elementwise::fma(s[i], scale, -largest) - log_sum),
              factor = factors[i];
      ds[i] = narrow<Out>(weight * (dp[i] * factor - dot) * gradient_scale);
      p[i] = narrow<Out>(weight * factor);
    }
  } else {
    TESSERA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < padded; ++i) {
      const A weight = elementwise::exp(elementwise::fma(s[i], scale, -largest) - log_sum);
      ds[i] = narrow<Out>(weight * (dp[i] - dot) * gradient_scale);
      p[i] = narrow<Out>(weight);
    }
  }
  zeros(p, n, row.width);
  zeros(ds, n, row.width);
}

template <class A, class T>
A dot(const T* a, const T* b, int64_t n) {
  return sum_lanes<A>(n, [=](int64_t i) { return widen<A>(a[i]) * widen<A>(b[i]); });
}

template <class A>
void dropout_factors(const MaskRow& row, A* out, int64_t n) {
  constexpr int64_t group = 4 * philox_lanes, wide = philox_registers * group;
  uint32_t words[wide];
  const int64_t lead =
      static_cast<int64_t>(row.first % 4);  // words of the first block before element `first`
  const A scale = static_cast<A>(row.scale);
  const uint32_t threshold = row.threshold > 0xffffffffu ? 0xffffffffu : static_cast<uint32_t>(row.threshold);
  const PhiloxKeys keys(row.key);
  uint64_t block = row.first / 4;
  for (int64_t done = -lead; done < n;) {
    const int64_t drawn = done + wide <= n ? wide : group;
    if (drawn == wide)
      philox_words<philox_registers>(keys, block, row.sample, row.step, words);
    else
      philox_words<1>(keys, block, row.sample, row.step, words);
    if (done >= 0 && done + drawn <= n) {
      for (int64_t i = 0; i < drawn; ++i) out[done + i] = words[i] < threshold ? A(0) : scale;
    } else {
      const int64_t begin = done < 0 ? 0 : done, end = done + drawn < n ? done + drawn : n;
      for (int64_t i = begin; i < end; ++i) out[i] = words[i - done] < threshold ? A(0) : scale;
    }
    done += drawn;
    block += static_cast<uint64_t>(drawn / 4);
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
  static constexpr AttentionRows<float, float> rows{
      &weights<float, float>, &score_gradients<float, float>, &dot<float, float>, &dropout_factors<float>,
      &add_mask<float>,       &add_distances<float>,          &hide<float>};
  return &rows;
}

const AttentionRows<double, double>* attention_rows_f64() {
  static constexpr AttentionRows<double, double> rows{&weights<double, double>,
                                                      &score_gradients<double, double>,
                                                      &dot<double, double>,
                                                      &dropout_factors<double>,
                                                      &add_mask<double>,
                                                      &add_distances<double>,
                                                      &hide<double>};
  return &rows;
}

const AttentionRows<float, bfloat16>* attention_rows_bf16() {
  static constexpr AttentionRows<float, bfloat16> rows{&weights<float, bfloat16>,
                                                       &score_gradients<float, bfloat16>,
                                                       &dot<float, bfloat16>,
                                                       &dropout_factors<float>,
                                                       &add_mask<float>,
                                                       &add_distances<float>,
                                                       &hide<float>};
  return &rows;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
