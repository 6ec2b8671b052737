#pragma once  // internal

#include <algorithm>
#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace tessera {

/// The least bytes that a kernel moves for an operand: each element once. A struct that carries tensors to a
/// kernel has a function of this name in its own namespace.
inline int64_t operand_bytes(const Tensor& x) {
  return x.defined() ? std::min(x.nbytes(), x.storage()->nbytes()) : 0;  // expanded: at most the storage's
}
/// The sum over the elements of a span; those without tensors count 0.
template <class T>
int64_t operand_bytes(std::span<const T> operands);

/// The sum over a kernel's arguments; those without tensors count 0.
template <class... Args>
int64_t bytes_of_operands(const Args&... arguments) {
  const auto bytes = [](const auto& argument) -> int64_t {
    if constexpr (requires { operand_bytes(argument); })
      return operand_bytes(argument);
    else
      return 0;
  };
  return (bytes(arguments) + ... + 0);
}

template <class T>
int64_t operand_bytes(std::span<const T> operands) {
  int64_t sum = 0;
  for (const T& operand : operands) sum += bytes_of_operands(operand);
  return sum;
}

}  // namespace tessera
