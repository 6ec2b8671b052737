#pragma once  // internal

#include "tensor/cpu/isa/stored_lanes.h"

/// Several registers of f32 as one value of the elementwise functions that are templates of their type
/// (tensor/elementwise/gelu.h). A polynomial is a chain of multiply-adds, each waiting for the one before;
/// the chains of several registers, side by side, keep the processor's units busy.
namespace tessera::kernels::cpu::TESSERA_ISA {

#if defined(__FMA__)

struct FloatGroup {
  static constexpr int registers = register_bytes == 64 ? 4 : 2;
  static constexpr int count = registers * register_bytes / 4;

  Register<float> part[registers];

  FloatGroup() = default;
  [[gnu::always_inline]] explicit FloatGroup(float value) {
    for (Register<float>& p : part) fill_with(p, value);
  }
};

/// f(r) for each register r.
template <class F>
[[gnu::always_inline]] inline FloatGroup each(const F& f) {
  FloatGroup out;
  for (int r = 0; r < FloatGroup::registers; ++r) out.part[r] = f(r);
  return out;
}

[[gnu::always_inline]] inline FloatGroup operator+(const FloatGroup& a, const FloatGroup& b) {
  return each([&](int r) { return a.part[r] + b.part[r]; });
}
[[gnu::always_inline]] inline FloatGroup operator-(const FloatGroup& a, const FloatGroup& b) {
  return each([&](int r) { return a.part[r] - b.part[r]; });
}
[[gnu::always_inline]] inline FloatGroup operator*(const FloatGroup& a, const FloatGroup& b) {
  return each([&](int r) { return a.part[r] * b.part[r]; });
}
[[gnu::always_inline]] inline FloatGroup operator-(const FloatGroup& a) {
  return each([&](int r) { return -a.part[r]; });
}

[[gnu::always_inline]] inline Register<float> fma(const Register<float>& a, const Register<float>& b,
                                                  const Register<float>& c) {
#if defined(__AVX512F__)
  return (Register<float>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#else
  return (Register<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#endif
}
[[gnu::always_inline]] inline FloatGroup fma(const FloatGroup& a, const FloatGroup& b, const FloatGroup& c) {
  return each([&](int r) { return fma(a.part[r], b.part[r], c.part[r]); });
}

[[gnu::always_inline]] inline FloatGroup abs(const FloatGroup& x) {
  return each([&](int r) { return (Register<float>)((Register<uint32_t>)x.part[r] & 0x7fffffffu); });
}
[[gnu::always_inline]] inline FloatGroup at_most(const FloatGroup& a, float limit) {
  Register<float> most;
  fill_with(most, limit);
  // The instruction gives its second operand where one is a NaN.
#if defined(__AVX512F__)
  return each(
      [&](int r) { return (Register<float>)_mm512_maskz_min_ps(0xffff, (__m512)most, (__m512)a.part[r]); });
#else
  return each([&](int r) { return (Register<float>)_mm256_min_ps((__m256)most, (__m256)a.part[r]); });
#endif
}
[[gnu::always_inline]] inline FloatGroup where_positive(const FloatGroup& x, const FloatGroup& positive,
                                                        const FloatGroup& other) {
  return each([&](int r) { return x.part[r] > 0.0f ? positive.part[r] : other.part[r]; });
}
[[gnu::always_inline]] inline FloatGroup power_of_two(const FloatGroup& shifted) {
  return each(
      [&](int r) { return (Register<float>)(((Register<uint32_t>)shifted.part[r] << 23) + 0x3f800000u); });
}

[[gnu::always_inline]] inline FloatGroup polynomial(const FloatGroup&, float c0) {
  return FloatGroup(c0);
}
template <class... Rest>
[[gnu::always_inline]] inline FloatGroup polynomial(const FloatGroup& x, float c0, Rest... rest) {
  return fma(polynomial(x, rest...), x, FloatGroup(c0));
}

template <class T>
[[gnu::always_inline]] inline FloatGroup load_group(const T* p) {
  FloatGroup out;
  for (int r = 0; r < FloatGroup::registers; ++r) {
    if constexpr (is_half<T>)
      widen_into(out.part[r], p + r * (register_bytes / 4));
    else
      load_into(out.part[r], p + r * (register_bytes / 4));
  }
  return out;
}
template <class T>
[[gnu::always_inline]] inline void store_group(T* p, const FloatGroup& v) {
  for (int r = 0; r < FloatGroup::registers; ++r) {
    if constexpr (is_half<T>)
      narrow_from(v.part[r], p + r * (register_bytes / 4));
    else
      store(p + r * (register_bytes / 4), v.part[r]);
  }
}

#endif

}  // namespace tessera::kernels::cpu::TESSERA_ISA
