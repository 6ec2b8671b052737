#pragma once

#include "autograd/variable.h"

/// Functions of one Variable, element by element. Each saves its argument, or, where noted, its result, from
/// which the derivative is cheaper.
namespace tessera {

Variable abs(const Variable& x);  ///< derivative sign(x): 0 at 0
Variable square(const Variable& x);
Variable sqrt(const Variable& x);        ///< saves the result
Variable rsqrt(const Variable& x);       ///< 1/sqrt(x); saves the result
Variable reciprocal(const Variable& x);  ///< saves the result
Variable exp(const Variable& x);         ///< saves the result
Variable exp2(const Variable& x);        ///< saves the result
Variable expm1(const Variable& x);       ///< exp(x) - 1; saves the result
Variable log(const Variable& x);
Variable log2(const Variable& x);
Variable log10(const Variable& x);
Variable log1p(const Variable& x);  ///< log(1 + x)
Variable sin(const Variable& x);
Variable cos(const Variable& x);
Variable tan(const Variable& x);  ///< saves the result
Variable erf(const Variable& x);
Variable erfc(const Variable& x);

// Step functions: the derivative is 0 where it exists. Nothing is saved.
Variable sign(const Variable& x);
Variable floor(const Variable& x);
Variable ceil(const Variable& x);
Variable round(const Variable& x);  ///< to the nearest, ties to even
Variable trunc(const Variable& x);

}  // namespace tessera
