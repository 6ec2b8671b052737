#pragma once

#include "tensor/elementwise/op_lists.h"
#include "tensor/tensor.h"
#include "tensor/types/scalar.h"

/// Elementwise functions of two operands, which broadcast by NumPy's rules. Dtypes of one kind promote to the
/// wider; mixed kinds throw DTypeError (see promotion.h). A scalar takes the tensor's dtype; a floating
/// scalar with an integer tensor throws DTypeError. ShapeError where shapes do not broadcast, DeviceError for
/// mixed devices.
namespace tessera::ops {

// clang-format off
/// a + b, a - b, a * b.
/// @{
Tensor add(const Tensor& a, const Tensor& b);
Tensor add(const Tensor& a, const Scalar& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Scalar& b);
Tensor sub(const Scalar& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Scalar& b);
/// @}

/// a / b for floating dtypes; for integers see floor_divide.
/// @{
Tensor div(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Scalar& b);
Tensor div(const Scalar& a, const Tensor& b);
/// @}

/// a^b, with IEEE 754's special cases. Integers wrap; their negative powers are 0, except for bases 1 and -1.
/// @{
Tensor pow(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& a, const Scalar& b);
Tensor pow(const Scalar& a, const Tensor& b);
/// @}

/// The larger or the smaller operand; NaN if either is.
/// @{
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Scalar& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Scalar& b);
/// @}

/// The quotient rounded down and its remainder (with b's sign), as Python's // and %. Throw ValueError when
/// an integer divisor is 0.
/// @{
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, const Scalar& b);
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, const Scalar& b);
/// @}

/// Bitwise operations, for integers and bool.
/// @{
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
/// @}

/// Logical operations on any dtype (a value that is not 0 is true); the result is bool.
/// @{
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
/// @}

/// a == b, a != b, a < b, a <= b, a > b, a >= b; the result is bool. With NaN only != is true.
/// @{
Tensor equal(const Tensor& a, const Tensor& b);
Tensor equal(const Tensor& a, const Scalar& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Scalar& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Scalar& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Scalar& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Scalar& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Scalar& b);
/// @}

/// Derivatives in one pass: dy times f'(x), from x (relu, silu, gelu, gelu_tanh, softplus) or from y = f(x)
/// (sigmoid, tanh).
/// @{
Tensor relu_backward(const Tensor& x, const Tensor& dy);
Tensor silu_backward(const Tensor& x, const Tensor& dy);
Tensor gelu_backward(const Tensor& x, const Tensor& dy);
Tensor gelu_tanh_backward(const Tensor& x, const Tensor& dy);
Tensor softplus_backward(const Tensor& x, const Tensor& dy);
Tensor sigmoid_backward(const Tensor& y, const Tensor& dy);
Tensor tanh_backward(const Tensor& y, const Tensor& dy);
/// @}
// clang-format on

/// a = a op b: b broadcasts to a's shape; a keeps its dtype (a floating a takes any floating b). b may
/// overlap a.
/// @{
void add_(const Tensor& a, const Tensor& b);
void add_(const Tensor& a, const Scalar& b);
void sub_(const Tensor& a, const Tensor& b);
void sub_(const Tensor& a, const Scalar& b);
void mul_(const Tensor& a, const Tensor& b);
void mul_(const Tensor& a, const Scalar& b);
void div_(const Tensor& a, const Tensor& b);
void div_(const Tensor& a, const Scalar& b);
/// @}

/// out = op(a, b) for any operation of the list. `out` has the broadcast shape and the promoted dtype (any
/// floating dtype for floating results; bool for comparisons), and may be or overlap an operand.
/// @{
void binary_out(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out);
void binary_out(BinaryOp op, const Tensor& a, const Scalar& b, const Tensor& out);
/// @}

}  // namespace tessera::ops
