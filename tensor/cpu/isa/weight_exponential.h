#pragma once  // internal

#include <type_traits>

#include "tensor/cpu/isa/lanes.h"
#include "tensor/elementwise/exp.h"
#include "tensor/types/float_types.h"

/// e^x as a weight of attention. Test: tests/tensor/cpu/attention_rows_test.cpp.
namespace tessera::kernels::cpu::TESSERA_ISA {

#if defined(__AVX512F__) && !defined(__clang__)
// GCC 12 warns of undefined registers in its own header (GCC bug 105593), wherever its functions are inlined.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// e^x as a weight of type Out, for x that is above 0 by rounding alone: exact to f32's last bits, or to those
// that rounding to bf16 leaves. Below the smallest normal number the result is 0, and above 64 it is that of
// 64, so that sums stay finite. x is n ln 2 + r; the bits of `exp_magic` + n, shifted, are those of 2^n.
inline constexpr float exp_smallest = -0x1.5d589cp+6f, exp_largest = 64.0f, exp_magic = 0x1.8p23f + 127,
                       log2_e = 0x1.715476p0f, ln_2 = 0x1.62e430p-1f, ln_2_rest = -0x1.05c610p-29f;

/// Calls horner(c0, c1, ...) with the coefficients of (exp(r) - 1) / r, from minimax.py.
template <class Out, class Horner>
[[gnu::always_inline]] inline auto exp_series(const Horner& horner) {
  if constexpr (std::is_same_v<Out, bfloat16>)
    return horner(1.0f, 5.00051200e-01f, 1.67535782e-01f, 4.12775390e-02f);
  else
    return horner(1.0f, 5.00000000e-01f, 1.66665435e-01f, 4.16662805e-02f, 8.36660340e-03f, 1.39464485e-03f);
}

template <class Out>
[[gnu::always_inline]] inline float exp_of_weight(float x) {
  x = x > exp_largest ? exp_largest : x;
  const float shifted = elementwise::fma(x, log2_e, exp_magic), n = shifted - exp_magic;
  float r = elementwise::fma(n, -ln_2, x);
  if constexpr (std::is_same_v<Out, float>) r = elementwise::fma(n, -ln_2_rest, r);
  const float series = exp_series<Out>([r](auto... c) { return elementwise::polynomial(r, c...); });
  const float power = elementwise::from_bits(elementwise::bits_of(shifted) << 23);
  const float result = elementwise::fma(r * series, power, power);
  return x < exp_smallest ? 0.0f : result;
}
template <class Out>
[[gnu::always_inline]] inline double exp_of_weight(double x) {
  return elementwise::exp(x);
}

#if defined(__AVX512F__)
[[gnu::always_inline]] inline __m512 polynomial_of(__m512, float c0) {
  return _mm512_set1_ps(c0);
}
template <class... Rest>
[[gnu::always_inline]] inline __m512 polynomial_of(__m512 x, float c0, Rest... rest) {
  return _mm512_fmadd_ps(polynomial_of(x, rest...), x, _mm512_set1_ps(c0));
}
/// `exp_of_weight`, with the same bits, and with comparisons that take one instruction each.
template <class Out>
[[gnu::always_inline]] inline __m512 exp_of_weights(__m512 x) {
  const __m512 magic = _mm512_set1_ps(exp_magic);
  x = _mm512_min_ps(_mm512_set1_ps(exp_largest), x);
  const __m512 shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(log2_e), magic), n = _mm512_sub_ps(shifted, magic);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(ln_2), x);
  if constexpr (std::is_same_v<Out, float>) r = _mm512_fnmadd_ps(n, _mm512_set1_ps(ln_2_rest), r);
  const __m512 series = exp_series<Out>([r](auto... c) { return polynomial_of(r, c...); });
  const __m512 power = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(shifted), 23));
  const __mmask16 normal = _mm512_cmp_ps_mask(x, _mm512_set1_ps(exp_smallest), _CMP_NLT_UQ);
  return _mm512_maskz_fmadd_ps(normal, _mm512_mul_ps(r, series), power, power);
}
#endif

/// exp(scale s - shift - more) of a vector.
template <class Out, class A>
[[gnu::always_inline]] inline Lanes<A> exponentials(const A* s, A scale, A shift, A more) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<A, float>) {
    const __m512 x = _mm512_fmsub_ps(_mm512_loadu_ps(s), _mm512_set1_ps(scale), _mm512_set1_ps(shift));
    return (Lanes<A>)exp_of_weights<Out>(_mm512_sub_ps(x, _mm512_set1_ps(more)));
  }
#endif
  return lanes_of<A>(
      0, [=](int64_t j) { return exp_of_weight<Out>(elementwise::fma(s[j], scale, -shift) - more); });
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
