#pragma once

#include <concepts>
#include <utility>
#include <vector>

#include "autograd/variable.h"

/// Structured bindings that C++ cannot have, since it needs their number of names from the type: errors that
/// say what to write.
namespace tessera::detail {
template <class T>
inline constexpr bool has_fixed_size = false;
template <class T>
concept ListOfTensors = std::same_as<T, std::vector<Tensor>> || std::same_as<T, std::vector<Variable>>;
}  // namespace tessera::detail

/// Of `auto [B, T, C] = x.shape()`.
template <std::same_as<tessera::Shape> T>
struct std::tuple_size<T> {
  static_assert(
      tessera::detail::has_fixed_size<T>,
      "the length of a Shape is not known when this is compiled: write auto [B, T, C] = x.dims<3>()");
  static constexpr size_t value = 0;  ///< not used: the error comes first
};

/// Of `auto [a, b] = chunk(x, 2, -1)`.
template <tessera::detail::ListOfTensors T>
struct std::tuple_size<T> {
  static_assert(
      tessera::detail::has_fixed_size<T>,
      "the length of a list is not known when this is compiled: write auto [a, b] = chunk<2>(x, -1), "
      "or auto parts = chunk(x, 2, -1), parts[0]");
  static constexpr size_t value = 0;  ///< not used: the error comes first
};
