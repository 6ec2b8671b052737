#pragma once

#include "autograd/variable.h"

/// Functions of one Variable, element by element. Each saves its argument, or, where noted, its result, from
/// which the derivative is cheaper.
namespace tessera {

Variable neg(const Variable& x);         ///< -x; saves nothing
Variable abs(const Variable& x);         ///< |x|; derivative sign(x): 0 at 0
Variable square(const Variable& x);      ///< x^2
Variable sqrt(const Variable& x);        ///< the square root; saves the result
Variable rsqrt(const Variable& x);       ///< 1/sqrt(x); saves the result
Variable reciprocal(const Variable& x);  ///< 1/x; saves the result
Variable exp(const Variable& x);         ///< e^x; saves the result
Variable exp2(const Variable& x);        ///< 2^x; saves the result
Variable expm1(const Variable& x);       ///< e^x - 1, accurate near 0; saves the result
Variable log(const Variable& x);         ///< the natural logarithm
Variable log2(const Variable& x);        ///< the logarithm to base 2
Variable log10(const Variable& x);       ///< the logarithm to base 10
Variable log1p(const Variable& x);       ///< log(1 + x), accurate near 0
Variable sin(const Variable& x);         ///< the sine of x radians
Variable cos(const Variable& x);         ///< the cosine of x radians
Variable tan(const Variable& x);         ///< the tangent of x radians; saves the result
Variable erf(const Variable& x);         ///< the error function
Variable erfc(const Variable& x);        ///< 1 - erf(x), accurate for large x

// Step functions: the derivative is 0 where it exists. Nothing is saved.
Variable sign(const Variable& x);   ///< -1, 0 or 1; 0 for NaN
Variable floor(const Variable& x);  ///< rounded down
Variable ceil(const Variable& x);   ///< rounded up
Variable round(const Variable& x);  ///< to the nearest integer, ties to even
Variable trunc(const Variable& x);  ///< rounded towards 0

/// neg(x).
inline Variable operator-(const Variable& x) {
  return neg(x);
}

}  // namespace tessera
