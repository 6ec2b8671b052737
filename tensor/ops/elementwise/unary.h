#pragma once

#include "tensor/elementwise/op_lists.h"
#include "tensor/tensor.h"

/// Elementwise functions of one tensor. Results are new, contiguous tensors of x's shape and, unless noted,
/// of x's dtype; bf16 and f16 are computed in f32 and rounded once. Each throws DTypeError for a dtype that
/// it does not take. Accuracy: see tensor/elementwise.
namespace tessera::ops {

// What each computes stands beside its name in tensor/elementwise/op_lists.h.
#define TESSERA_DECLARE(name) Tensor name(const Tensor& x);

// Floating dtypes.
TESSERA_UNARY_FLOAT_METHODS(TESSERA_DECLARE)
TESSERA_ACTIVATION_OPS(TESSERA_DECLARE)
// Floating dtypes and integers.
TESSERA_UNARY_NUMERIC_OPS(TESSERA_DECLARE)
// Floating in, bool out.
TESSERA_UNARY_PREDICATES(TESSERA_DECLARE)
// Integers and bool.
TESSERA_UNARY_INTEGER_OPS(TESSERA_DECLARE)
#undef TESSERA_DECLARE

Tensor logical_not(const Tensor& x);  ///< x == 0, as bool; takes any dtype

/// out = op(x). `out` has x's shape and dtype (any floating dtype for a floating x; bool for predicates), and
/// may be x.
void unary_out(UnaryOp op, const Tensor& x, const Tensor& out);

/// x = op(x).
void unary_(UnaryOp op, const Tensor& x);

}  // namespace tessera::ops
