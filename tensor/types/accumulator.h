#pragma once  // internal

#include <cstdint>

#include "tensor/types/float_types.h"

namespace tessera {

namespace detail {
template <class T>
struct Accumulator {
  using type = int64_t;
};
template <>
struct Accumulator<double> {
  using type = double;
};
template <>
struct Accumulator<float> {
  using type = float;
};
template <>
struct Accumulator<bfloat16> {
  using type = float;
};
template <>
struct Accumulator<float16> {
  using type = float;
};
}  // namespace detail

/// The type in which values of type T are added up: f32 for the half types, i64 for integers and bool.
template <class T>
using accumulator_of = typename detail::Accumulator<T>::type;

}  // namespace tessera
