#pragma once

#include "tensor/arguments/activation_linear.h"
#include "tensor/elementwise/op_lists.h"

namespace tessera {

/// An activation: its name, and the elementwise operations f(x) and f'(x) dy. Whether one pass computes both
/// is a property of the operation (`has_value_with_gradient`).
struct ActivationRow {
  Activation activation;  ///< the row's key, and its position in the table
  const char* name;       ///< as `to_string(activation)` gives it
  UnaryOp forward;        ///< f(x)
  BinaryOp backward;      ///< f'(x) dy, from (x, dy)
};

/// A row for each Activation, in the order of the enumerators.
inline constexpr ActivationRow activation_table[] = {
    {Activation::gelu, "gelu", UnaryOp::gelu, BinaryOp::gelu_backward},
    {Activation::gelu_tanh, "gelu_tanh", UnaryOp::gelu_tanh, BinaryOp::gelu_tanh_backward},
    {Activation::relu, "relu", UnaryOp::relu, BinaryOp::relu_backward},
    {Activation::silu, "silu", UnaryOp::silu, BinaryOp::silu_backward},
};

/// The row of `f`.
constexpr const ActivationRow& row_of(Activation f) {
  return activation_table[static_cast<size_t>(f)];
}
static_assert([] {
  for (const ActivationRow& row : activation_table)
    if (&row_of(row.activation) != &row) return false;
  return true;
}());

}  // namespace tessera
