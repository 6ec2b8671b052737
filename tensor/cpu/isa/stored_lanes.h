#pragma once  // internal

#include "tensor/cpu/isa/lanes.h"
#include "tensor/cpu/loops/convert.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/// Lanes in the type that is computed in, to and from memory in the type of storage: the half types by whole
/// registers, with the results of `widen` and `narrow` (tensor/cpu/loops/convert.h). GCC splits the vectors
/// of
/// `__builtin_convertvector`, so instructions are named here.
namespace tessera::kernels::cpu::TESSERA_ISA {

/// The half values that fill a register once they are widened.
typedef uint16_t HalfBits __attribute__((vector_size(register_bytes / 2)));

[[gnu::always_inline]] inline void widen_into(Register<float>& v, const bfloat16* p) {
  HalfBits bits;
  std::memcpy(&bits, p, sizeof bits);
#if defined(__AVX512F__)
  const auto wide = (Register<uint32_t>)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)bits);
#elif defined(__AVX2__)
  const auto wide = (Register<uint32_t>)_mm256_cvtepu16_epi32((__m128i)bits);
#elif defined(__SSE2__)
  int64_t four;
  std::memcpy(&four, &bits, sizeof four);
  const auto wide = (Register<uint32_t>)_mm_unpacklo_epi16(_mm_cvtsi64_si128(four), _mm_setzero_si128());
#else
  const auto wide = __builtin_convertvector(bits, Register<uint32_t>);
#endif
  v = (Register<float>)(wide << 16);
}

/// As many 8-bit integers as a register holds values of f32.
[[gnu::always_inline]] inline void widen_into(Register<float>& v, const int8_t* p) {
  typedef int8_t Bytes __attribute__((vector_size(register_bytes / 4)));
  Bytes bytes;
  std::memcpy(&bytes, p, sizeof bytes);
#if defined(__AVX512F__)
  const auto wide = (Register<int32_t>)_mm512_maskz_cvtepi8_epi32(0xffff, (__m128i)bytes);
#elif defined(__AVX2__)
  const auto wide =
      (Register<int32_t>)_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(__builtin_bit_cast(int64_t, bytes)));
#else
  const auto wide = __builtin_convertvector(bytes, Register<int32_t>);
#endif
  v = __builtin_convertvector(wide, Register<float>);
}

/// The lower halves of 32-bit lanes.
[[gnu::always_inline]] inline HalfBits lower_halves(const Register<uint32_t>& v) {
#if defined(__AVX512F__)
  return (HalfBits)_mm512_maskz_cvtepi32_epi16(0xffff, (__m512i)v);
#elif defined(__AVX2__)
  const __m256i packed = _mm256_packus_epi32((__m256i)(v & 0xffffu), (__m256i)v);
  return (HalfBits)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
#elif defined(__SSE2__)
  // Sign-extended, so that the saturation of the instruction changes nothing.
  const __m128i extended = _mm_srai_epi32(_mm_slli_epi32((__m128i)v, 16), 16);
  const int64_t four = _mm_cvtsi128_si64(_mm_packs_epi32(extended, extended));
  return __builtin_bit_cast(HalfBits, four);
#else
  return __builtin_convertvector(v, HalfBits);
#endif
}

[[gnu::always_inline]] inline void narrow_from(const Register<float>& v, bfloat16* p) {
#if defined(__AVX512BF16__)
  const auto bits = _mm512_cvtneps_pbh((__m512)v);
#else
  const auto u = (Register<uint32_t>)v;
  const Register<uint32_t> rounded = u + 0x7fffu + ((u >> 16) & 1u);
  const Register<uint32_t> chosen = v != v ? u | 0x400000u : rounded;
  const HalfBits bits = lower_halves(chosen >> 16);
#endif
  std::memcpy(p, &bits, sizeof bits);
}

#if defined(__F16C__)
[[gnu::always_inline]] inline void widen_into(Register<float>& v, const float16* p) {
  HalfBits bits;
  std::memcpy(&bits, p, sizeof bits);
#if defined(__AVX512F__)
  v = (Register<float>)_mm512_maskz_cvtph_ps(0xffff, (__m256i)bits);
#else
  v = (Register<float>)_mm256_cvtph_ps((__m128i)bits);
#endif
}
/// A NaN loses its payload first.
[[gnu::always_inline]] inline void narrow_from(const Register<float>& v, float16* p) {
  const auto u = (Register<uint32_t>)v;
  const Register<uint32_t> chosen = v != v ? (u & 0x80000000u) | 0x7fc00000u : u;
#if defined(__AVX512F__)
  const auto bits = (HalfBits)_mm512_maskz_cvtps_ph(0xffff, (__m512)chosen, _MM_FROUND_TO_NEAREST_INT);
#else
  const auto bits = (HalfBits)_mm256_cvtps_ph((__m256)chosen, _MM_FROUND_TO_NEAREST_INT);
#endif
  std::memcpy(p, &bits, sizeof bits);
}
#else
[[gnu::always_inline]] inline void widen_into(Register<float>& v, const float16* p) {
  constexpr int count = register_bytes / 4;
  float lane[count];
  for (int j = 0; j < count; ++j) lane[j] = widen<float>(p[j]);
  load_into(v, lane);
}
[[gnu::always_inline]] inline void narrow_from(const Register<float>& v, float16* p) {
  for (int j = 0; j < register_bytes / 4; ++j) p[j] = narrow<float16>(float(v[j]));
}
#endif

template <class Half, class T>
[[gnu::always_inline]] inline void widen_into(Halves<float, Half>& v, const T* p) {
  widen_into(v.low, p);
  widen_into(v.high, p + sizeof(Half) / sizeof(float));
}
template <class Half, class T>
[[gnu::always_inline]] inline void narrow_from(const Halves<float, Half>& v, T* p) {
  narrow_from(v.low, p);
  narrow_from(v.high, p + sizeof(Half) / sizeof(float));
}

/// The lanes of T's accumulator.
template <class T>
using WideLanes = Lanes<accumulator_of<T>>;
template <class T>
inline constexpr int wide_lane_count = lane_count<accumulator_of<T>>;

template <class T>
[[gnu::always_inline]] inline WideLanes<T> load_widened(const T* p) {
  if constexpr (is_half<T>) {
    WideLanes<T> v;
    widen_into(v, p);
    return v;
  } else {
    return load(p);
  }
}

template <class T>
[[gnu::always_inline]] inline void store_narrowed(T* p, const WideLanes<T>& v) {
  if constexpr (is_half<T>)
    narrow_from(v, p);
  else
    store(p, v);
}

/// How many values of a vector exist in memory: all of them, or fewer than there are lanes.
/// @{
struct Whole {};
struct Some {
  int64_t count;
};
/// @}

template <class T>
[[gnu::always_inline]] inline WideLanes<T> load_widened(const T* p, Whole) {
  return load_widened(p);
}
/// The lanes without a value are 0.
template <class T>
[[gnu::always_inline]] inline WideLanes<T> load_widened(const T* p, Some some) {
  T values[wide_lane_count<T>] = {};
  for (int64_t j = 0; j < some.count; ++j) values[j] = p[j];
  return load_widened(values);
}

template <class T>
[[gnu::always_inline]] inline void store_narrowed(T* p, const WideLanes<T>& v, Whole) {
  store_narrowed(p, v);
}
template <class T>
[[gnu::always_inline]] inline void store_narrowed(T* p, const WideLanes<T>& v, Some some) {
  T values[wide_lane_count<T>];
  store_narrowed(values, v);
  for (int64_t j = 0; j < some.count; ++j) p[j] = values[j];
}

/// v with 0 in the lanes without a value.
/// @{
template <class A>
[[gnu::always_inline]] inline Lanes<A> existing(const Lanes<A>& v, Whole) {
  return v;
}
template <class A>
[[gnu::always_inline]] inline Lanes<A> existing(const Lanes<A>& v, Some some) {
  A lane[lane_count<A>], kept[lane_count<A>] = {};
  store(lane, v);
  for (int64_t j = 0; j < some.count; ++j) kept[j] = lane[j];
  return load(kept);
}
/// @}

/// Calls body(i, Whole or Some) for the vectors of n values of A.
template <class A, class Body>
[[gnu::always_inline]] inline void for_vectors(int64_t n, const Body& body) {
  constexpr int width = lane_count<A>;
  int64_t i = 0;
  for (; i + width <= n; i += width) body(i, Whole());
  if (i < n) body(i, Some{n - i});
}

/// The same with pairs of vectors: body(i, i's part, whether i is the second of its pair).
template <class A, class Body>
[[gnu::always_inline]] inline void for_vector_pairs(int64_t n, const Body& body) {
  constexpr int width = lane_count<A>;
  int64_t i = 0;
  for (; i + 2 * width <= n; i += 2 * width) {
    body(i, Whole(), std::false_type());
    body(i + width, Whole(), std::true_type());
  }
  if (i + width <= n) {
    body(i, Whole(), std::false_type());
    if (i + width < n) body(i + width, Some{n - i - width}, std::true_type());
  } else if (i < n) {
    body(i, Some{n - i}, std::false_type());
  }
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
