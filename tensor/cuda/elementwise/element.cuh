#pragma once  // internal

#include <cstdint>
#include <type_traits>

#include "tensor/elementwise/to_integer.h"
#include "tensor/types/float_types.h"

namespace tessera::kernels::cuda {

/// An element of a bool tensor: a byte. Any value but 0 is true; what is stored is 0 or 1.
struct Boolean {
  uint8_t byte;
};

/// The type in which an element of type T is computed: f32 for the half types, a byte for bool, else its own.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>, float,
                                    std::conditional_t<std::is_same_v<T, Boolean>, uint8_t, T>>;

/// The value of an element.
template <class T>
__device__ __forceinline__ Computed<T> loaded(T element) {
  if constexpr (std::is_same_v<T, Boolean>)
    return element.byte;
  else
    return static_cast<Computed<T>>(element);
}

/// The element of type T of a value: rounded once where T is narrower; a floating value becomes the integer
/// that the CPU gives (tensor/elementwise/to_integer.h).
template <class T, class Value>
__device__ __forceinline__ T stored(Value value) {
  if constexpr (std::is_same_v<T, Boolean>)
    return Boolean{static_cast<uint8_t>(value != Value(0))};
  else if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>)
    return T(static_cast<float>(value));
  else if constexpr (std::is_floating_point_v<Value> && std::is_integral_v<T>)
    return elementwise::to_integer<T>(value);
  else
    return static_cast<T>(value);
}

/// V elements that are read or written at once: up to 16 bytes, aligned to their size.
template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T at[V];
};

}  // namespace tessera::kernels::cuda
