#pragma once

#include "autograd/variable.h"
#include "tensor/elementwise/op_lists.h"

/// Functions of one Variable, element by element; those of TESSERA_ACTIVATION_OPS are in activation.h. What
/// each computes stands beside its name in tensor/elementwise/op_lists.h. Each saves its argument, or its
/// result where that makes the derivative cheaper, as its rule in unary.cpp and activation.cpp says; `neg`
/// and the step functions (`sign`, `floor`, `ceil`, `round`, `trunc`: their derivative is 0) save nothing.
/// The derivative of `abs` at 0 is 0.
namespace tessera {

#define TESSERA_DECLARE(name) Variable name(const Variable& x);
TESSERA_UNARY_FLOAT_METHODS(TESSERA_DECLARE)
TESSERA_UNARY_NUMERIC_OPS(TESSERA_DECLARE)
#undef TESSERA_DECLARE

/// neg(x).
inline Variable operator-(const Variable& x) {
  return neg(x);
}

}  // namespace tessera
