#pragma once  // internal

#include "tensor/elementwise/op_lists.h"
#include "tensor/functions.h"
#include "tensor/methods.h"

/// Definitions of methods (tensor/methods/definitions.h): element by element.
namespace tessera {

/// A method without arguments.
#define TESSERA_UNARY(Result, name)       \
  template <class X>                      \
  Result TensorMethods<X>::name() const { \
    return tessera::name(self());         \
  }
#define TESSERA_METHOD(name) TESSERA_UNARY(X, name)
#define TESSERA_PREDICATE(name) TESSERA_UNARY(Tensor, name)
TESSERA_UNARY_FLOAT_METHODS(TESSERA_METHOD)
TESSERA_UNARY_NUMERIC_OPS(TESSERA_METHOD)
TESSERA_UNARY_INTEGER_OPS(TESSERA_PREDICATE)
TESSERA_UNARY_PREDICATES(TESSERA_PREDICATE)
TESSERA_METHOD(sinh)
TESSERA_METHOD(cosh)
TESSERA_PREDICATE(logical_not)
#undef TESSERA_UNARY
#undef TESSERA_METHOD
#undef TESSERA_PREDICATE

/// A method with an operand: a tensor, a number, or either.
#define TESSERA_WITH(Result, method, function, Operand)     \
  template <class X>                                        \
  Result TensorMethods<X>::method(const Operand& y) const { \
    return tessera::function(self(), y);                    \
  }
#define TESSERA_WITH_EITHER(Result, name) \
  TESSERA_WITH(Result, name, name, X)     \
  TESSERA_WITH(Result, name, name, Scalar)
#define TESSERA_METHOD(name, symbol) TESSERA_WITH_EITHER(X, name)
#define TESSERA_COMPARISON(name, symbol, method, exchanged) \
  TESSERA_WITH(Tensor, method, name, X)                     \
  TESSERA_WITH(Tensor, method, name, Scalar)
TESSERA_ARITHMETIC(TESSERA_METHOD)
TESSERA_COMPARISONS(TESSERA_COMPARISON)
TESSERA_WITH_EITHER(X, remainder)
TESSERA_WITH_EITHER(X, fmod)
TESSERA_WITH_EITHER(X, pow)
TESSERA_WITH_EITHER(X, maximum)
TESSERA_WITH_EITHER(X, minimum)
TESSERA_WITH_EITHER(Tensor, floor_divide)
TESSERA_WITH_EITHER(Tensor, bitwise_left_shift)
TESSERA_WITH_EITHER(Tensor, bitwise_right_shift)
TESSERA_WITH(X, logaddexp, logaddexp, X)
TESSERA_WITH(X, clamp_min, clamp_min, Scalar)
TESSERA_WITH(X, clamp_max, clamp_max, Scalar)
TESSERA_WITH(Tensor, bitwise_and, bitwise_and, X)
TESSERA_WITH(Tensor, bitwise_or, bitwise_or, X)
TESSERA_WITH(Tensor, bitwise_xor, bitwise_xor, X)
TESSERA_WITH(Tensor, logical_and, logical_and, X)
TESSERA_WITH(Tensor, logical_or, logical_or, X)
TESSERA_WITH(Tensor, logical_xor, logical_xor, X)
TESSERA_WITH(bool, array_equal, array_equal, X)
#undef TESSERA_WITH
#undef TESSERA_WITH_EITHER
#undef TESSERA_METHOD
#undef TESSERA_COMPARISON

template <class X>
X TensorMethods<X>::lerp(const X& end, double weight) const {
  return tessera::lerp(self(), end, weight);
}
template <class X>
X TensorMethods<X>::addcmul(const X& a, const X& b, double value) const {
  return tessera::addcmul(self(), a, b, value);
}
template <class X>
X TensorMethods<X>::addcdiv(const X& a, const X& b, double value) const {
  return tessera::addcdiv(self(), a, b, value);
}
template <class X>
X TensorMethods<X>::clamp(std::optional<Scalar> min, std::optional<Scalar> max) const {
  return tessera::clamp(self(), min, max);
}
template <class X>
X TensorMethods<X>::nan_to_num(double nan, std::optional<double> posinf, std::optional<double> neginf) const {
  return tessera::nan_to_num(self(), nan, posinf, neginf);
}
template <class X>
bool TensorMethods<X>::allclose(const X& y, double rtol, double atol) const {
  return tessera::allclose(self(), y, rtol, atol);
}
template <class X>
Tensor TensorMethods<X>::isclose(const X& y, double rtol, double atol, bool equal_nan) const {
  return tessera::isclose(self(), y, rtol, atol, equal_nan);
}

}  // namespace tessera
