#pragma once  // internal

#include "tensor/functions.h"
#include "tensor/methods.h"

/// Definitions of methods (tensor/methods/definitions.h): products of matrices.
namespace tessera {

#define TESSERA_PRODUCT(name)                  \
  template <class X>                           \
  X TensorMethods<X>::name(const X& y) const { \
    return tessera::name(self(), y);           \
  }
TESSERA_PRODUCT(matmul)
TESSERA_PRODUCT(mm)
TESSERA_PRODUCT(bmm)
TESSERA_PRODUCT(mv)
TESSERA_PRODUCT(dot)
TESSERA_PRODUCT(outer)
#undef TESSERA_PRODUCT

template <class X>
X TensorMethods<X>::addmm(const X& a, const X& b, const Scalar& beta, const Scalar& alpha) const {
  return tessera::addmm(self(), a, b, beta, alpha);
}
template <class X>
X TensorMethods<X>::addmv(const X& a, const X& b, const Scalar& beta, const Scalar& alpha) const {
  return tessera::addmv(self(), a, b, beta, alpha);
}
template <class X>
X TensorMethods<X>::baddbmm(const X& a, const X& b, const Scalar& beta, const Scalar& alpha) const {
  return tessera::baddbmm(self(), a, b, beta, alpha);
}
template <class X>
X TensorMethods<X>::trace() const {
  return tessera::trace(self());
}

}  // namespace tessera
