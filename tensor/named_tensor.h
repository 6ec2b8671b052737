#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include "tensor/tensor.h"

namespace tessera {

/// A tensor under its full name: an entry of a state dict, of an optimizer's state, of a file. A structured
/// binding gives name and tensor: `for (auto& [name, tensor] : model.state_dict())`.
struct NamedTensor {
  std::string name;  ///< its parts with dots between them: "blocks.0.norm.weight"
  Tensor tensor;     ///< the values; of a parameter in mixed precision, those of its f32 master
  /// The rounded parameter that is computed with, where `tensor` is its f32 master: loading into `tensor`
  /// rounds it again.
  Tensor rounded = {};
};

/// The name for 0, the tensor for 1, as constant or movable as the entry is.
template <size_t i, class Entry>
requires(i < 2 && std::is_same_v<std::remove_cvref_t<Entry>, NamedTensor>) auto&& get(Entry&& entry) {
  if constexpr (i == 0)
    return std::forward<Entry>(entry).name;
  else
    return std::forward<Entry>(entry).tensor;
}

}  // namespace tessera

/// A structured binding of a NamedTensor has two names.
template <>
struct std::tuple_size<tessera::NamedTensor> : std::integral_constant<size_t, 2> {};
/// The first is a string.
template <>
struct std::tuple_element<0, tessera::NamedTensor> {
  using type = std::string;  ///< of the name
};
/// The second is a Tensor.
template <>
struct std::tuple_element<1, tessera::NamedTensor> {
  using type = tessera::Tensor;  ///< of the values
};
