// Rows of attention weights: softmax with what causality hides left out, its recomputation, its derivative,
// dropout. A row stays in the cache between the products on either side of it.

#include "tensor/cpu/attention.h"
#include "tensor/cpu/isa/lanes.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/log.h"
#include "tensor/random/philox.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class A>
[[gnu::always_inline]] inline A largest(const A* s, int64_t n) {
  return reduce_lanes<A>(n, -elementwise::Floating<A>::infinity, Larger(), [s](int64_t i) { return s[i]; });
}

template <class A>
[[gnu::always_inline]] inline A total(const A* s, int64_t n) {
  return sum_lanes<A>(n, [s](int64_t i) { return s[i]; });
}

template <class A>
A weights(A* s, int64_t n, int64_t width, A scale) {
  const A most = largest(s, n) * scale;
  for (int64_t i = 0; i < n; ++i) s[i] = elementwise::exp(elementwise::fma(s[i], scale, -most));
  const A sum = total(s, n);
  const A factor = A(1) / sum;
  for (int64_t i = 0; i < n; ++i) s[i] *= factor;
  for (int64_t i = n; i < width; ++i) s[i] = 0;
  return most + elementwise::log(sum);
}

template <class A>
void weights_again(A* s, int64_t n, int64_t width, A scale, A log_sum_exp) {
  for (int64_t i = 0; i < n; ++i) s[i] = elementwise::exp(elementwise::fma(s[i], scale, -log_sum_exp));
  for (int64_t i = n; i < width; ++i) s[i] = 0;
}

template <class A>
void slopes(const A* __restrict p, A* __restrict ds, int64_t n, int64_t width, A dot, A scale) {
  for (int64_t i = 0; i < n; ++i) ds[i] = p[i] * (ds[i] - dot) * scale;
  for (int64_t i = n; i < width; ++i) ds[i] = 0;
}

template <class A>
A dot(const A* a, const A* b, int64_t n) {
  return sum_lanes<A>(n, [=](int64_t i) { return a[i] * b[i]; });
}

template <class A>
void mask(const MaskRow& row, const A* in, A* out, int64_t n) {
  constexpr int64_t blocks = 16;
  uint32_t words[4 * blocks];
  const int64_t lead =
      static_cast<int64_t>(row.first % 4);  // words of the first block that belong to the row before
  const A scale = static_cast<A>(row.scale);
  for (int64_t done = -lead; done < n; done += 4 * blocks) {
    const uint64_t block = (row.first - static_cast<uint64_t>(lead) + static_cast<uint64_t>(done + lead)) / 4;
    for (int64_t b = 0; b < blocks; ++b) {
      const elementwise::PhiloxBlock random =
          elementwise::random_block(row.key, block + static_cast<uint64_t>(b), row.sample, row.step);
      for (int64_t w = 0; w < 4; ++w) words[4 * b + w] = random.word[w];
    }
    const int64_t begin = done < 0 ? 0 : done, end = done + 4 * blocks < n ? done + 4 * blocks : n;
    for (int64_t i = begin; i < end; ++i) out[i] = words[i - done] < row.threshold ? A(0) : in[i] * scale;
  }
}

}  // namespace

float attention_weights_f32(float* s, int64_t n, int64_t width, float scale) {
  return weights(s, n, width, scale);
}
double attention_weights_f64(double* s, int64_t n, int64_t width, double scale) {
  return weights(s, n, width, scale);
}
void attention_weights_again_f32(float* s, int64_t n, int64_t width, float scale, float log_sum_exp) {
  weights_again(s, n, width, scale, log_sum_exp);
}
void attention_weights_again_f64(double* s, int64_t n, int64_t width, double scale, double log_sum_exp) {
  weights_again(s, n, width, scale, log_sum_exp);
}
void attention_slopes_f32(const float* p, float* ds, int64_t n, int64_t width, float d, float scale) {
  slopes(p, ds, n, width, d, scale);
}
void attention_slopes_f64(const double* p, double* ds, int64_t n, int64_t width, double d, double scale) {
  slopes(p, ds, n, width, d, scale);
}
float attention_dot_f32(const float* a, const float* b, int64_t n) {
  return dot(a, b, n);
}
double attention_dot_f64(const double* a, const double* b, int64_t n) {
  return dot(a, b, n);
}
void attention_mask_f32(const MaskRow& row, const float* in, float* out, int64_t n) {
  mask(row, in, out, n);
}
void attention_mask_f64(const MaskRow& row, const double* in, double* out, int64_t n) {
  mask(row, in, out, n);
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
