#pragma once  // internal

#include <cstdint>

#include "tensor/types/host_device.h"

/// The basis of the elementwise functions. The same source is compiled for the host, once per instruction
/// set, and for the device. It gives the same bits everywhere, because it uses only operations whose rounding
/// IEEE 754 defines (+ - * / sqrt fma), integer arithmetic on the bits, and selects, and because nothing is
/// contracted (`-ffp-contract=off`, nvcc's `-fmad=false`). It has no branches, so that compilers vectorize
/// it.
///
/// All functions are forced inline, in an inline namespace named after the instruction set, so that the
/// linker keeps copies for different processors apart.
#if !defined(TESSERA_ISA)
#define TESSERA_ELEMENTWISE_ISA portable
#else
#define TESSERA_ELEMENTWISE_ISA TESSERA_ISA
#endif
#define TESSERA_ELEMENTWISE_BEGIN  \
  namespace tessera::elementwise { \
  inline namespace TESSERA_ELEMENTWISE_ISA {
#define TESSERA_ELEMENTWISE_END \
  }                             \
  }

TESSERA_ELEMENTWISE_BEGIN

#if defined(__CUDA_ARCH__)
TESSERA_ELEMENT float fma(float a, float b, float c) {
  return ::fmaf(a, b, c);
}
TESSERA_ELEMENT double fma(double a, double b, double c) {
  return ::fma(a, b, c);
}
TESSERA_ELEMENT float sqrt(float x) {
  return ::sqrtf(x);
}
TESSERA_ELEMENT double sqrt(double x) {
  return ::sqrt(x);
}
TESSERA_ELEMENT float floor(float x) {
  return ::floorf(x);
}
TESSERA_ELEMENT double floor(double x) {
  return ::floor(x);
}
TESSERA_ELEMENT float ceil(float x) {
  return ::ceilf(x);
}
TESSERA_ELEMENT double ceil(double x) {
  return ::ceil(x);
}
TESSERA_ELEMENT float trunc(float x) {
  return ::truncf(x);
}
TESSERA_ELEMENT double trunc(double x) {
  return ::trunc(x);
}
TESSERA_ELEMENT float round(float x) {
  return ::rintf(x);
}
TESSERA_ELEMENT double round(double x) {
  return ::rint(x);
}
TESSERA_ELEMENT float fmod(float x, float y) {
  return ::fmodf(x, y);
}
TESSERA_ELEMENT double fmod(double x, double y) {
  return ::fmod(x, y);
}
#else
/// a * b + c, rounded once.
TESSERA_ELEMENT float fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
TESSERA_ELEMENT double fma(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
/// The square root, correctly rounded.
TESSERA_ELEMENT float sqrt(float x) {
  return __builtin_sqrtf(x);
}
TESSERA_ELEMENT double sqrt(double x) {
  return __builtin_sqrt(x);
}
TESSERA_ELEMENT float floor(float x) {
  return __builtin_floorf(x);
}
TESSERA_ELEMENT double floor(double x) {
  return __builtin_floor(x);
}
TESSERA_ELEMENT float ceil(float x) {
  return __builtin_ceilf(x);
}
TESSERA_ELEMENT double ceil(double x) {
  return __builtin_ceil(x);
}
TESSERA_ELEMENT float trunc(float x) {
  return __builtin_truncf(x);
}
TESSERA_ELEMENT double trunc(double x) {
  return __builtin_trunc(x);
}
/// To the nearest integer, ties to even, as NumPy and IEEE 754.
TESSERA_ELEMENT float round(float x) {
  return __builtin_rintf(x);
}
TESSERA_ELEMENT double round(double x) {
  return __builtin_rint(x);
}
/// The remainder of x / y with x's sign; exact, so the C library's is used.
TESSERA_ELEMENT float fmod(float x, float y) {
  return __builtin_fmodf(x, y);
}
TESSERA_ELEMENT double fmod(double x, double y) {
  return __builtin_fmod(x, y);
}
#endif

TESSERA_ELEMENT uint32_t bits_of(float x) {
  return __builtin_bit_cast(uint32_t, x);
}
TESSERA_ELEMENT uint64_t bits_of(double x) {
  return __builtin_bit_cast(uint64_t, x);
}
TESSERA_ELEMENT float from_bits(uint32_t u) {
  return __builtin_bit_cast(float, u);
}
TESSERA_ELEMENT double from_bits(unsigned long u) {
  return __builtin_bit_cast(double, static_cast<uint64_t>(u));
}
TESSERA_ELEMENT double from_bits(unsigned long long u) {
  return __builtin_bit_cast(double, static_cast<uint64_t>(u));
}

TESSERA_ELEMENT float abs(float x) {
  return from_bits(bits_of(x) & 0x7fffffffu);
}
TESSERA_ELEMENT double abs(double x) {
  return from_bits(bits_of(x) & 0x7fffffffffffffffull);
}
/// `magnitude` (not negative) with the sign of `sign`.
TESSERA_ELEMENT float with_sign_of(float magnitude, float sign) {
  return from_bits(bits_of(magnitude) | (bits_of(sign) & 0x80000000u));
}
TESSERA_ELEMENT double with_sign_of(double magnitude, double sign) {
  return from_bits(bits_of(magnitude) | (bits_of(sign) & 0x8000000000000000ull));
}

/// The limits of a floating type.
template <class T>
struct Floating;
template <>
struct Floating<float> {
  static constexpr float infinity = __builtin_huge_valf();
  static constexpr float quiet_nan = __builtin_nanf("");
  static constexpr float largest = 0x1.fffffep127f;
  static constexpr float smallest_normal = 0x1p-126f;
};
template <>
struct Floating<double> {
  static constexpr double infinity = __builtin_huge_val();
  static constexpr double quiet_nan = __builtin_nan("");
  static constexpr double largest = 0x1.fffffffffffffp1023;
  static constexpr double smallest_normal = 0x1p-1022;
};

/// c0 + c1 x + c2 x^2 + ... by Horner's rule.
template <class T>
TESSERA_ELEMENT T polynomial(T, T c0) {
  return c0;
}
template <class T, class... Rest>
TESSERA_ELEMENT T polynomial(T x, T c0, Rest... rest) {
  return fma(polynomial(x, rest...), x, c0);
}

TESSERA_ELEMENTWISE_END
