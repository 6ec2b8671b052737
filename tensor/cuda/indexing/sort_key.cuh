#pragma once  // internal

#include <cstdint>
#include <type_traits>

#include "tensor/cuda/elementwise/element.cuh"

/// Keys: unsigned numbers in the order of the elements.
namespace tessera::kernels::cuda {

template <class T>
using SortKey = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

/// The bits of a key that differ between elements.
template <class T>
inline constexpr int key_bits = 8 * static_cast<int>(sizeof(T));

/// The element's bits as an unsigned number.
template <class T>
__device__ __forceinline__ SortKey<T> bits_of(T element) {
  if constexpr (sizeof(T) == 8)
    return *reinterpret_cast<const uint64_t*>(&element);
  else if constexpr (sizeof(T) == 4)
    return *reinterpret_cast<const uint32_t*>(&element);
  else if constexpr (sizeof(T) == 2)
    return *reinterpret_cast<const uint16_t*>(&element);
  else
    return *reinterpret_cast<const uint8_t*>(&element);
}

/// Elements that compare as equal (0 and -0, denormals that are flushed, NaNs of any bits) have one key; a
/// NaN has the largest one, or the smallest one of a descending order.
template <class T>
__device__ __forceinline__ SortKey<T> key_of(T element, bool descending) {
  using Key = SortKey<T>;
  constexpr Key all = static_cast<Key>(~uint64_t{0} >> (64 - key_bits<T>)), sign = (all >> 1) + 1;
  Key key;
  if constexpr (std::is_floating_point_v<Computed<T>>) {
    const Computed<T> value = loaded(element);
    const Key bits = value == Computed<T>(0) ? Key(0) : bits_of(element);
    key = value != value ? all : (bits & sign) != 0 ? ~bits & all : bits | sign;
  } else if constexpr (std::is_same_v<T, Boolean>) {
    key = element.byte != 0 ? 1 : 0;
  } else {
    key = std::is_signed_v<T> ? bits_of(element) ^ sign : bits_of(element);
  }
  return descending ? ~key & all : key;
}

}  // namespace tessera::kernels::cuda
