#pragma once

#include "tensor/elementwise/target.h"

/// Arithmetic whose rules need saying: which NaN wins, how quotients round. Integers wrap modulo 2^bits.
TESSERA_ELEMENTWISE_BEGIN

template <class T>
inline constexpr bool is_float = T(0.5) != T(0);

/// -1, 0 or 1; NaN for NaN.
template <class T>
TESSERA_ELEMENT T sign(T x) {
  if constexpr (is_float<T>) return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == T(0) ? T(0) : x;
  return static_cast<T>((x > T(0)) - (x < T(0)));
}

/// The larger operand; NaN if either is.
template <class T>
TESSERA_ELEMENT T maximum(T a, T b) {
  return a > b || a != a ? a : b;
}
/// The smaller operand; NaN if either is.
template <class T>
TESSERA_ELEMENT T minimum(T a, T b) {
  return a < b || a != a ? a : b;
}

/// The remainder with the divisor's sign, as Python's %.
template <class T>
TESSERA_ELEMENT T floored_remainder(T a, T b) {
  if constexpr (is_float<T>) {
    const T r = fmod(a, b);
    return r != T(0) && (b < T(0)) != (r < T(0)) ? r + b : r;
  } else {
    if (b == T(0) || b == static_cast<T>(-1)) return T(0);  // the op refuses 0; min / -1 would trap
    const T r = static_cast<T>(a % b);
    return r != T(0) && (b < T(0)) != (r < T(0)) ? static_cast<T>(r + b) : r;
  }
}

/// The quotient rounded down, as Python's //.
template <class T>
TESSERA_ELEMENT T floored_quotient(T a, T b) {
  if constexpr (is_float<T>) {
    if (b == T(0)) return a / b;
    const T r = fmod(a, b);
    T quotient = (a - r) / b;
    if (r != T(0) && (b < T(0)) != (r < T(0))) quotient -= T(1);
    const T whole = floor(quotient);
    return quotient - whole > T(0.5) ? whole + T(1) : whole;
  } else {
    if (b == T(0)) return T(0);
    if (b == static_cast<T>(-1)) return static_cast<T>(T(0) - static_cast<uint64_t>(a));
    const T quotient = static_cast<T>(a / b);
    return a % b != T(0) && (a < T(0)) != (b < T(0)) ? static_cast<T>(quotient - T(1)) : quotient;
  }
}

TESSERA_ELEMENTWISE_END
