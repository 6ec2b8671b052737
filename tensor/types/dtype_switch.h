#pragma once  // internal

#include <utility>

#include "tensor/error.h"
#include "tensor/types/dtype.h"

namespace tessera {

/// Stands for the type T as an argument: `[&]<class T>(TypeTag<T>) { ... }`.
template <class T>
struct TypeTag {
  using type = T;  ///< the type that it stands for
};

/// Calls `body(TypeTag<T>())` with the C++ type of a floating dtype. Throws DTypeError for the others.
template <class Body>
decltype(auto) with_floating(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f64:
      return body(TypeTag<double>());
    case DType::f32:
      return body(TypeTag<float>());
    case DType::bf16:
      return body(TypeTag<bfloat16>());
    case DType::f16:
      return body(TypeTag<float16>());
    default:
      throw DTypeError(text("expected a floating dtype, got ", dtype));
  }
}

/// Calls `body(TypeTag<T>())` with the C++ type of any dtype.
template <class Body>
decltype(auto) with_any(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::i64:
      return body(TypeTag<int64_t>());
    case DType::i32:
      return body(TypeTag<int32_t>());
    case DType::u8:
      return body(TypeTag<uint8_t>());
    case DType::boolean:
      return body(TypeTag<bool>());
    default:
      return with_floating(dtype, std::forward<Body>(body));
  }
}

}  // namespace tessera
