#pragma once  // internal

#include "tensor/functions.h"
#include "tensor/methods.h"

/// Definitions of methods (tensor/methods/definitions.h): elements by index and by mask.
namespace tessera {

template <class X>
X TensorMethods<X>::gather(int64_t dim, const Tensor& index) const {
  return tessera::gather(self(), dim, index);
}
template <class X>
X TensorMethods<X>::scatter(int64_t dim, const Tensor& index, const X& source) const {
  return tessera::scatter(self(), dim, index, source);
}
template <class X>
X TensorMethods<X>::scatter(int64_t dim, const Tensor& index, const Scalar& value) const {
  return tessera::scatter(self(), dim, index, value);
}
template <class X>
X TensorMethods<X>::scatter_add(int64_t dim, const Tensor& index, const X& source) const {
  return tessera::scatter_add(self(), dim, index, source);
}
template <class X>
X TensorMethods<X>::index_select(int64_t dim, const Tensor& index) const {
  return tessera::index_select(self(), dim, index);
}
template <class X>
X TensorMethods<X>::index_add(int64_t dim, const Tensor& index, const X& source) const {
  return tessera::index_add(self(), dim, index, source);
}
template <class X>
X TensorMethods<X>::index_copy(int64_t dim, const Tensor& index, const X& source) const {
  return tessera::index_copy(self(), dim, index, source);
}
template <class X>
X TensorMethods<X>::index_fill(int64_t dim, const Tensor& index, const Scalar& value) const {
  return tessera::index_fill(self(), dim, index, value);
}
template <class X>
X TensorMethods<X>::take_along_dim(const Tensor& index, int64_t dim) const {
  return tessera::take_along(self(), index, dim);
}
template <class X>
X TensorMethods<X>::take(const Tensor& index) const {
  return tessera::take(self(), index);
}
template <class X>
X TensorMethods<X>::masked_fill(const Tensor& mask, const Scalar& value) const {
  return tessera::masked_fill(self(), mask, value);
}
template <class X>
X TensorMethods<X>::masked_select(const Tensor& mask) const {
  return tessera::masked_select(self(), mask);
}
template <class X>
X TensorMethods<X>::masked_scatter(const Tensor& mask, const X& source) const {
  return tessera::masked_scatter(self(), mask, source);
}
template <class X>
X TensorMethods<X>::where(const Tensor& condition, const X& other) const {
  return tessera::where(condition, self(), other);
}
template <class X>
X TensorMethods<X>::where(const Tensor& condition, const Scalar& other) const {
  return tessera::where(condition, self(), other);
}
template <class X>
Tensor TensorMethods<X>::nonzero() const {
  return tessera::nonzero(self());
}

}  // namespace tessera
