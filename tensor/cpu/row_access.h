#pragma once

#include <cstdint>
#include <type_traits>

#include "tensor/float_types.h"

namespace tessera::kernels::cpu {

template <class T>
inline constexpr bool is_half = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

/// A stored number in a type to compute with.
template <class A, class T>
inline A widen(T value) {
  if constexpr (is_half<T>)
    return static_cast<A>(static_cast<float>(value));
  else
    return static_cast<A>(value);
}

/// A computed number in the type it is stored in.
template <class T, class A>
inline T narrow(A value) {
  if constexpr (is_half<T>)
    return T(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

template <class A, class T>
inline void widen_row(const T* x, int64_t step, int64_t n, A* row) {
  for (int64_t i = 0; i < n; ++i) row[i] = widen<A>(x[i * step]);
}

template <class T, class A>
inline void narrow_row(const A* row, int64_t step, int64_t n, T* out) {
  for (int64_t i = 0; i < n; ++i) out[i * step] = narrow<T>(row[i]);
}

}  // namespace tessera::kernels::cpu
