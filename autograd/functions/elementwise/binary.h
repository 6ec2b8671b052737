#pragma once

#include "autograd/variable.h"
#include "tensor/types/scalar.h"

/// Arithmetic of two Variables, or of a Variable and a scalar. Shapes broadcast as in NumPy; dtypes promote
/// as in the array API (tensor/ops/elementwise/binary.h). An operand's gradient has the shape and dtype of
/// the operand.
namespace tessera {

/// a + b, and a - b. Nothing is saved.
/// @{
Variable add(const Variable& a, const Variable& b);
Variable sub(const Variable& a, const Variable& b);
/// @}
/// a times b. Saves an operand only where the other one's gradient is wanted.
Variable mul(const Variable& a, const Variable& b);
/// a / b. Saves b and, for b's gradient, the result.
Variable div(const Variable& a, const Variable& b);
/// a^b. The gradient of a is 0 where b is 0. The gradient of b has the factor log(a): NaN for negative a; 0
/// where a is 0, unless b is negative.
Variable pow(const Variable& a, const Variable& b);
/// The larger or the smaller operand; NaN if either is. The gradient goes to the operand that is the result;
/// equal operands get half each; where one is NaN, both get all of it.
/// @{
Variable maximum(const Variable& a, const Variable& b);
Variable minimum(const Variable& a, const Variable& b);
Variable maximum(const Variable& x, const Scalar& scalar);
Variable maximum(const Scalar& scalar, const Variable& x);
Variable minimum(const Variable& x, const Scalar& scalar);
Variable minimum(const Scalar& scalar, const Variable& x);
/// @}

/// The remainder with b's sign, as Python's %. Saves a and b where b's gradient is wanted: minus the quotient
/// rounded down.
/// @{
Variable remainder(const Variable& a, const Variable& b);
Variable remainder(const Variable& x, const Scalar& scalar);
Variable operator%(const Variable& a, const Variable& b);
Variable operator%(const Variable& x, const Scalar& scalar);
/// @}

/// x + scalar, x times scalar, and x - scalar. Nothing is saved.
/// @{
Variable add(const Variable& x, const Scalar& scalar);
Variable mul(const Variable& x, const Scalar& scalar);
Variable add(const Scalar& scalar, const Variable& x);
Variable mul(const Scalar& scalar, const Variable& x);
Variable sub(const Variable& x, const Scalar& scalar);
/// @}
/// x / scalar. Nothing is saved.
Variable div(const Variable& x, const Scalar& scalar);
/// x^scalar, and scalar^x. Saves x.
/// @{
Variable pow(const Variable& x, const Scalar& scalar);
Variable pow(const Scalar& scalar, const Variable& x);
/// @}
/// scalar - x.
Variable sub(const Scalar& scalar, const Variable& x);
/// scalar / x. Saves x.
Variable div(const Scalar& scalar, const Variable& x);

/// In place: x becomes x + y, or x - y. Throws as `record_in_place` (autograd/record.h). y broadcasts to x's
/// shape.
/// @{
void add_(const Variable& x, const Variable& y);
void add_(const Variable& x, const Scalar& scalar);
void sub_(const Variable& x, const Variable& y);
void sub_(const Variable& x, const Scalar& scalar);
/// @}
/// In place: x becomes x times y. Throws and broadcasts as `add_`. Saves a copy of the old x only where y's
/// gradient is wanted.
void mul_(const Variable& x, const Variable& y);
/// In place: x becomes x times `scalar`. Throws as `add_`. Nothing is saved.
void mul_(const Variable& x, const Scalar& scalar);
/// In place: x becomes x / y. Throws and broadcasts as `add_`. Saves y and, only where y's gradient is
/// wanted, a copy of the old x.
void div_(const Variable& x, const Variable& y);
/// In place: x becomes x / `scalar`. Throws as `add_`. Nothing is saved.
void div_(const Variable& x, const Scalar& scalar);

/// The functions above as operators: `a + b` is `add(a, b)`, `-x` is `neg(x)`.
/// @{
inline Variable operator+(const Variable& a, const Variable& b) {
  return add(a, b);
}
inline Variable operator-(const Variable& a, const Variable& b) {
  return sub(a, b);
}
inline Variable operator*(const Variable& a, const Variable& b) {
  return mul(a, b);
}
inline Variable operator/(const Variable& a, const Variable& b) {
  return div(a, b);
}
/// @}

/// The operators with one scalar operand. Only `n / x` saves x.
/// @{
inline Variable operator+(const Variable& x, const Scalar& n) {
  return add(x, n);
}
inline Variable operator+(const Scalar& n, const Variable& x) {
  return add(x, n);
}
Variable operator-(const Variable& x, const Scalar& n);
inline Variable operator-(const Scalar& n, const Variable& x) {
  return sub(n, x);
}
inline Variable operator*(const Variable& x, const Scalar& n) {
  return mul(x, n);
}
inline Variable operator*(const Scalar& n, const Variable& x) {
  return mul(x, n);
}
Variable operator/(const Variable& x, const Scalar& n);
inline Variable operator/(const Scalar& n, const Variable& x) {
  return div(n, x);
}
/// @}

/// In place, as `add_` and so on; the result is x. As in PyTorch this is allowed inside a graph: x becomes
/// the result of the operation. A leaf that requires a gradient throws AutogradError while operations are
/// recorded: write `x = x + y` for a new Variable, or change it under NoGrad.
/// @{
const Variable& operator+=(const Variable& x, const Variable& y);
const Variable& operator+=(const Variable& x, const Scalar& n);
const Variable& operator-=(const Variable& x, const Variable& y);
const Variable& operator-=(const Variable& x, const Scalar& n);
const Variable& operator*=(const Variable& x, const Variable& y);
const Variable& operator*=(const Variable& x, const Scalar& n);
const Variable& operator/=(const Variable& x, const Variable& y);
const Variable& operator/=(const Variable& x, const Scalar& n);
/// @}
/// A Tensor has no history in which to record y: write `Variable(x) += y`, or `x += y.value()` for the
/// values.
/// @{
void operator+=(const Tensor& x, const Variable& y) = delete;
void operator-=(const Tensor& x, const Variable& y) = delete;
void operator*=(const Tensor& x, const Variable& y) = delete;
void operator/=(const Tensor& x, const Variable& y) = delete;
/// @}

}  // namespace tessera
