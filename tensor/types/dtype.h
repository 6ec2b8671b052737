#pragma once

#include <cstdint>
#include <string>

#include "tensor/types/float_types.h"

namespace tessera {

/// The type of a tensor's elements.
enum class DType : uint8_t { f64, f32, bf16, f16, i64, i32, u8, boolean };

/// The dtypes by their short names.
/// @{
inline constexpr DType f64 = DType::f64;
inline constexpr DType f32 = DType::f32;
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType f16 = DType::f16;
inline constexpr DType i64 = DType::i64;
inline constexpr DType i32 = DType::i32;
inline constexpr DType u8 = DType::u8;
inline constexpr DType boolean = DType::boolean;
/// PyTorch's names. (`bfloat16` and `float16` are the types of such elements.)
/// @{
inline constexpr DType float64 = DType::f64, float32 = DType::f32;
/// @}
/// @}

/// Bytes of one element.
constexpr int64_t size_of(DType dtype) {
  constexpr int8_t sizes[] = {8, 4, 2, 2, 8, 4, 1, 1};
  return sizes[static_cast<int>(dtype)];
}

/// f64, f32, bf16 or f16: the types that can carry a gradient.
constexpr bool is_floating(DType dtype) {
  return dtype <= DType::f16;
}
/// i64, i32 or u8.
constexpr bool is_integer(DType dtype) {
  return dtype >= DType::i64 && dtype <= DType::u8;
}

/// "f32", "bf16", "i64", "bool", ...
std::string to_string(DType dtype);
/// The inverse of `to_string`. Throws ValueError for an unknown name.
DType parse_dtype(const std::string& name);

namespace detail {
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<float16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
}  // namespace detail

/// The DType of a C++ element type: `dtype_of<float> == f32`.
template <class T>
inline constexpr DType dtype_of = detail::DTypeOf<T>::value;

}  // namespace tessera
