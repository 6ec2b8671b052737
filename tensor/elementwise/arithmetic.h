#pragma once  // internal

#include "tensor/elementwise/power.h"
#include "tensor/elementwise/target.h"

/// Arithmetic, comparisons and selections, with their rules for NaN and rounding. Integers wrap modulo
/// 2^bits.
TESSERA_ELEMENTWISE_BEGIN

template <class T>
inline constexpr bool is_float = static_cast<T>(0.5) != T(0);

template <class T>
TESSERA_ELEMENT T add(T a, T b) {
  if constexpr (is_float<T>) return a + b;
  return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <class T>
TESSERA_ELEMENT T sub(T a, T b) {
  if constexpr (is_float<T>) return a - b;
  return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
template <class T>
TESSERA_ELEMENT T mul(T a, T b) {
  if constexpr (is_float<T>) return a * b;
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
template <class T>
TESSERA_ELEMENT T div(T a, T b) {
  return a / b;
}
template <class T>
TESSERA_ELEMENT T neg(T x) {
  if constexpr (is_float<T>) return -x;
  return sub(T(0), x);
}
template <class T>
TESSERA_ELEMENT T square(T x) {
  return mul(x, x);
}
template <class T>
TESSERA_ELEMENT T reciprocal(T x) {
  return T(1) / x;
}
TESSERA_ELEMENT int64_t abs(int64_t x) {
  return x < 0 ? neg(x) : x;
}
TESSERA_ELEMENT int32_t abs(int32_t x) {
  return x < 0 ? neg(x) : x;
}
TESSERA_ELEMENT uint8_t abs(uint8_t x) {
  return x;
}

/// -1, 0 or 1; 0 for NaN, as PyTorch has it.
template <class T>
TESSERA_ELEMENT T sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? static_cast<T>(-1) : T(0);
}

/// max(x, 0); NaN stays NaN.
template <class T>
TESSERA_ELEMENT T relu(T x) {
  return x < T(0) ? T(0) : x;
}

/// The larger operand; NaN if either is.
template <class T>
TESSERA_ELEMENT T maximum(T a, T b) {
  const T larger = a > b ? a : b;
  return a != a ? a : larger;
}
/// The smaller operand; NaN if either is.
template <class T>
TESSERA_ELEMENT T minimum(T a, T b) {
  const T smaller = a < b ? a : b;
  return a != a ? a : smaller;
}

/// The remainder with the divisor's sign, as Python's %.
template <class T>
TESSERA_ELEMENT T remainder(T a, T b) {
  if constexpr (is_float<T>) {
    const T r = fmod(a, b);
    return r != T(0) && (b < T(0)) != (r < T(0)) ? r + b : r;
  } else {
    if (b == T(0) || (T(0) > static_cast<T>(-1) && b == static_cast<T>(-1)))
      return T(0);  // the op has thrown for a divisor of 0; min % -1 would trap
    const T r = static_cast<T>(a % b);
    return r != T(0) && (b < T(0)) != (r < T(0)) ? static_cast<T>(r + b) : r;
  }
}

/// The quotient rounded down, as Python's //.
template <class T>
TESSERA_ELEMENT T floor_divide(T a, T b) {
  if constexpr (is_float<T>) {
    if (b == T(0)) return a / b;
    const T r = fmod(a, b);
    T quotient = (a - r) / b;
    if (r != T(0) && (b < T(0)) != (r < T(0))) quotient -= T(1);
    const T floored = floor(quotient);
    return quotient - floored > T(0.5) ? floored + T(1) : floored;
  } else {
    if (b == T(0)) return T(0);
    if (T(0) > static_cast<T>(-1) && b == static_cast<T>(-1)) return neg(a);
    const T quotient = static_cast<T>(a / b);
    return a % b != T(0) && (a < T(0)) != (b < T(0)) ? static_cast<T>(quotient - T(1)) : quotient;
  }
}

TESSERA_ELEMENT int64_t pow(int64_t base, int64_t exponent) {
  return integer_power(base, exponent);
}
TESSERA_ELEMENT int32_t pow(int32_t base, int32_t exponent) {
  return integer_power(base, exponent);
}
TESSERA_ELEMENT uint8_t pow(uint8_t base, uint8_t exponent) {
  return static_cast<uint8_t>(integer_power<int64_t>(base, exponent));
}

template <class T>
TESSERA_ELEMENT T bitwise_not(T x) {
  return static_cast<T>(~x);
}
template <class T>
TESSERA_ELEMENT T bitwise_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
TESSERA_ELEMENT T bitwise_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
TESSERA_ELEMENT T bitwise_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}

template <class T>
TESSERA_ELEMENT bool isnan(T x) {
  return x != x;
}
template <class T>
TESSERA_ELEMENT bool isinf(T x) {
  return abs(x) == Floating<T>::infinity;
}
template <class T>
TESSERA_ELEMENT bool isfinite(T x) {
  return abs(x) <= Floating<T>::largest;
}
template <class T>
TESSERA_ELEMENT bool equal(T a, T b) {
  return a == b;
}
template <class T>
TESSERA_ELEMENT bool not_equal(T a, T b) {
  return a != b;
}
template <class T>
TESSERA_ELEMENT bool less(T a, T b) {
  return a < b;
}
template <class T>
TESSERA_ELEMENT bool less_equal(T a, T b) {
  return a <= b;
}

/// min(max(x, low), high); NaN stays NaN. The factor is not used.
template <class T>
TESSERA_ELEMENT T clamp(T x, T low, T high, T) {
  return minimum(maximum(x, low), high);
}
/// a + weight (b - a).
template <class T>
TESSERA_ELEMENT T lerp(T a, T b, T weight, T) {
  return fma(weight, b - a, a);
}
/// factor a b + c.
template <class T>
TESSERA_ELEMENT T multiply_add(T a, T b, T c, T factor) {
  return fma(factor * a, b, c);
}
/// x + factor a b.
template <class T>
TESSERA_ELEMENT T addcmul(T x, T a, T b, T factor) {
  return fma(factor * a, b, x);
}
/// x + factor a / b.
template <class T>
TESSERA_ELEMENT T addcdiv(T x, T a, T b, T factor) {
  return fma(factor, a / b, x);
}

TESSERA_ELEMENTWISE_END
