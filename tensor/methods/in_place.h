#pragma once  // internal

#include "tensor/elementwise/op_lists.h"
#include "tensor/functions.h"
#include "tensor/methods.h"

/// Definitions of methods (tensor/methods/definitions.h): those that change the tensor, and return it.
namespace tessera {

/// A method without arguments, and one with an operand, a tensor or a number.
#define TESSERA_UNARY(name)                    \
  template <class X>                           \
  const X& TensorMethods<X>::name##_() const { \
    tessera::name##_(self());                  \
    return self();                             \
  }
#define TESSERA_WITH(name, Operand)                            \
  template <class X>                                           \
  const X& TensorMethods<X>::name##_(const Operand& y) const { \
    tessera::name##_(self(), y);                               \
    return self();                                             \
  }
#define TESSERA_WITH_EITHER(name, symbol) TESSERA_WITH(name, X) TESSERA_WITH(name, Scalar)
TESSERA_UNARY_IN_PLACE_OPS(TESSERA_UNARY)
TESSERA_UNARY(zero)
TESSERA_ARITHMETIC(TESSERA_WITH_EITHER)
TESSERA_WITH(copy, X)
TESSERA_WITH(pow, Scalar)
TESSERA_WITH(fill, Scalar)
TESSERA_WITH(clamp_min, Scalar)
TESSERA_WITH(clamp_max, Scalar)
#undef TESSERA_UNARY
#undef TESSERA_WITH
#undef TESSERA_WITH_EITHER

template <class X>
const X& TensorMethods<X>::clamp_(std::optional<Scalar> min, std::optional<Scalar> max) const {
  tessera::clamp_(self(), min, max);
  return self();
}
template <class X>
const X& TensorMethods<X>::lerp_(const X& end, double weight) const {
  tessera::lerp_(self(), end, weight);
  return self();
}
template <class X>
const X& TensorMethods<X>::addcmul_(const X& a, const X& b, double value) const {
  tessera::addcmul_(self(), a, b, value);
  return self();
}
template <class X>
const X& TensorMethods<X>::addcdiv_(const X& a, const X& b, double value) const {
  tessera::addcdiv_(self(), a, b, value);
  return self();
}
template <class X>
const X& TensorMethods<X>::masked_fill_(const Tensor& mask, const Scalar& value) const {
  tessera::masked_fill_(self(), mask, value);
  return self();
}
template <class X>
const X& TensorMethods<X>::scatter_(int64_t dim, const Tensor& index, const X& source) const {
  tessera::scatter_(self(), dim, index, source);
  return self();
}
template <class X>
const X& TensorMethods<X>::scatter_(int64_t dim, const Tensor& index, const Scalar& value) const {
  tessera::scatter_(self(), dim, index, value);
  return self();
}
template <class X>
const X& TensorMethods<X>::scatter_add_(int64_t dim, const Tensor& index, const X& source) const {
  tessera::scatter_add_(self(), dim, index, source);
  return self();
}
template <class X>
const X& TensorMethods<X>::index_add_(int64_t dim, const Tensor& index, const X& source) const {
  tessera::index_add_(self(), dim, index, source);
  return self();
}
template <class X>
const X& TensorMethods<X>::index_copy_(int64_t dim, const Tensor& index, const X& source) const {
  tessera::index_copy_(self(), dim, index, source);
  return self();
}
template <class X>
const X& TensorMethods<X>::index_fill_(int64_t dim, const Tensor& index, const Scalar& value) const {
  tessera::index_fill_(self(), dim, index, value);
  return self();
}
template <class X>
const X& TensorMethods<X>::normal_(double mean, double deviation) const {
  tessera::normal_(self(), mean, deviation);
  return self();
}
template <class X>
const X& TensorMethods<X>::uniform_(double low, double high) const {
  tessera::uniform_(self(), low, high);
  return self();
}
template <class X>
const X& TensorMethods<X>::bernoulli_(double probability) const {
  tessera::bernoulli_(self(), probability);
  return self();
}

}  // namespace tessera
