#pragma once

#include "tensor/arguments/special_function.h"
#include "tensor/tensor.h"

/// Inverse trigonometric and hyperbolic functions and those of the gamma and error functions, element by
/// element, computed in f64 and rounded once. Outside their domain they give NaN. All throw DTypeError for
/// dtypes that are not floating.
namespace tessera::ops {

/// The inverses of sine (-pi/2 to pi/2), cosine (0 to pi) and tangent (-pi/2 to pi/2).
/// @{
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
/// @}
/// The inverses of the hyperbolic sine, cosine (for x of at least 1) and tangent (for |x| up to 1).
/// @{
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
/// @}
/// The inverse of `erf`, for |x| up to 1.
Tensor erfinv(const Tensor& x);
/// log |gamma(x)|; infinite at 0 and at negative integers.
Tensor lgamma(const Tensor& x);
/// The derivative of `lgamma`, and its n-th derivative, for n of at least 0 (ValueError); beyond the
/// first it is NaN below -2^20.
/// @{
Tensor digamma(const Tensor& x);
Tensor polygamma(int64_t n, const Tensor& x);
/// @}

/// Functions of two operands, which broadcast and promote as those of binary.h.
/// @{
/// The angle of the point (x, y), from -pi to pi, by the signs of both.
Tensor atan2(const Tensor& y, const Tensor& x);
/// sqrt(a^2 + b^2) without overflow.
Tensor hypot(const Tensor& a, const Tensor& b);
/// |a| with the sign of b, also of a zero.
Tensor copysign(const Tensor& a, const Tensor& b);
/// The number of the dtype next to a in the direction of b. Throws DTypeError for half types.
Tensor nextafter(const Tensor& a, const Tensor& b);
/// @}

}  // namespace tessera::ops
