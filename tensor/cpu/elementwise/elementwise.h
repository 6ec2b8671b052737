#pragma once  // internal

#include "tensor/elementwise/op_lists.h"
#include "tensor/tensor.h"
#include "tensor/types/scalar.h"

/// Elementwise operations on CPU tensors of any strides. Inputs have been expanded to the output's shape.
/// Values are computed in `type` (bf16 and f16 in f32) and converted to the output's dtype where that
/// differs.
namespace tessera::kernels::cpu {

/// Whether the result is bool.
constexpr bool is_predicate(UnaryOp op) {
  return op >= UnaryOp::isnan;
}
constexpr bool is_comparison(BinaryOp op) {
  return op >= BinaryOp::equal;
}

/// out = op(x).
void unary(UnaryOp op, DType type, const Tensor& x, const Tensor& out);
/// out = op(a, b).
void binary(BinaryOp op, DType type, const Tensor& a, const Tensor& b, const Tensor& out);
/// out = op(x, scalar), or op(scalar, x) when `scalar_first`.
void binary_scalar(BinaryOp op, DType type, const Tensor& x, const Scalar& scalar, bool scalar_first,
                   const Tensor& out);
/// out = op(a, b, c, factor).
void ternary(TernaryOp op, DType type, const Tensor& a, const Tensor& b, const Tensor& c, double factor,
             const Tensor& out);
/// out = condition ? a : b; condition is bool, a and b have any dtype of out's kind.
void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out);
/// out = x converted to out's dtype.
void cast(const Tensor& x, const Tensor& out);
/// Sets every element of out to `value`.
void fill(const Tensor& out, const Scalar& value);

}  // namespace tessera::kernels::cpu
