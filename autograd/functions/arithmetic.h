#pragma once

#include "autograd/variable.h"
#include "tensor/types/scalar.h"

/// Arithmetic of two Variables, or of one and a number. Shapes broadcast as in NumPy; dtypes promote as in
/// the array API (tensor/ops/binary.h), and each operand's gradient has its own shape and dtype.
namespace tessera {

Variable add(const Variable& a, const Variable& b);
Variable sub(const Variable& a, const Variable& b);
/// Saves an operand only where the other one's gradient is wanted.
Variable mul(const Variable& a, const Variable& b);
/// Saves b and, for b's gradient, the result.
Variable div(const Variable& a, const Variable& b);
/// a^b. The gradient of a is 0 where b is 0. The gradient of b takes log(a): NaN for negative a; 0 where a is
/// 0, unless b is negative.
Variable pow(const Variable& a, const Variable& b);
/// The gradient goes to the operand that was taken; equal operands share it half and half, and beside a NaN
/// both receive it.
Variable maximum(const Variable& a, const Variable& b);
Variable minimum(const Variable& a, const Variable& b);
Variable neg(const Variable& x);

Variable add(const Variable& x, const Scalar& number);
Variable mul(const Variable& x, const Scalar& number);
/// x^number. Saves x.
Variable pow(const Variable& x, const Scalar& number);
/// number - x.
Variable sub(const Scalar& number, const Variable& x);
/// number / x. Saves x.
Variable div(const Scalar& number, const Variable& x);

/// In place: x becomes x + y; refused where autograd/record.h says so. y broadcasts to x's shape.
void add_(const Variable& x, const Variable& y);
void sub_(const Variable& x, const Variable& y);
/// Saves x as it was (a copy) only where y's gradient is wanted.
void mul_(const Variable& x, const Variable& y);
void mul_(const Variable& x, const Scalar& number);

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
inline Variable operator-(const Variable& x) {
  return neg(x);
}

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

}  // namespace tessera
