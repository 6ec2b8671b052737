#pragma once  // internal

#include "tensor/functions.h"
#include "tensor/methods.h"

/// Definitions of methods (tensor/methods/definitions.h): reductions, sums along a dimension, order.
namespace tessera {

/// A reduction of dimensions, of one dimension, and of all.
#define TESSERA_OVER(Result, name)                                       \
  template <class X>                                                     \
  Result TensorMethods<X>::name(const Shape& dims, bool keepdim) const { \
    return tessera::name(self(), dims, keepdim);                         \
  }
#define TESSERA_ALONG(Result, method, function)                      \
  template <class X>                                                 \
  Result TensorMethods<X>::method(int64_t dim, bool keepdim) const { \
    return tessera::function(self(), dim, keepdim);                  \
  }
#define TESSERA_OF_ALL(Result, name)      \
  template <class X>                      \
  Result TensorMethods<X>::name() const { \
    return tessera::name(self());         \
  }
TESSERA_OVER(X, sum)
TESSERA_OVER(X, mean)
TESSERA_OVER(X, prod)
TESSERA_OVER(X, amax)
TESSERA_OVER(X, amin)
TESSERA_OVER(X, logsumexp)
TESSERA_OVER(Tensor, any)
TESSERA_OVER(Tensor, all)
TESSERA_ALONG(Tensor, argmax, argmax)
TESSERA_ALONG(Tensor, argmin, argmin)
TESSERA_ALONG(ValuesAndIndices<X>, max, max_along)
TESSERA_ALONG(ValuesAndIndices<X>, min, min_along)
TESSERA_ALONG(ValuesAndIndices<X>, median, median_along)
TESSERA_OF_ALL(X, max)
TESSERA_OF_ALL(X, min)
TESSERA_OF_ALL(X, median)
TESSERA_OF_ALL(Tensor, argmax)
TESSERA_OF_ALL(Tensor, argmin)
TESSERA_OF_ALL(Tensor, unique)
TESSERA_OF_ALL(Tensor, bincount)
#undef TESSERA_OVER
#undef TESSERA_ALONG
#undef TESSERA_OF_ALL

template <class X>
X TensorMethods<X>::var(const Shape& dims, const VarianceOptions& options) const {
  return tessera::var(self(), dims, options.keepdim, options.correction);
}
template <class X>
X TensorMethods<X>::std(const Shape& dims, const VarianceOptions& options) const {
  return tessera::stddev(self(), dims, options.keepdim, options.correction);
}
template <class X>
X TensorMethods<X>::norm(double p, const Shape& dims, bool keepdim) const {
  return tessera::norm(self(), p, dims, keepdim);
}
template <class X>
Tensor TensorMethods<X>::count_nonzero(const Shape& dims) const {
  return tessera::count_nonzero(self(), dims);
}
template <class X>
X TensorMethods<X>::softmax(int64_t dim) const {
  return tessera::softmax(self(), dim);
}
template <class X>
X TensorMethods<X>::log_softmax(int64_t dim) const {
  return tessera::log_softmax(self(), dim);
}
template <class X>
X TensorMethods<X>::cumsum(int64_t dim) const {
  return tessera::cumsum(self(), dim);
}
template <class X>
X TensorMethods<X>::cumprod(int64_t dim) const {
  return tessera::cumprod(self(), dim);
}
template <class X>
X TensorMethods<X>::logcumsumexp(int64_t dim) const {
  return tessera::logcumsumexp(self(), dim);
}
template <class X>
ValuesAndIndices<X> TensorMethods<X>::sort(int64_t dim, bool descending) const {
  return tessera::sort(self(), dim, descending);
}
template <class X>
ValuesAndIndices<X> TensorMethods<X>::topk(int64_t k, int64_t dim, bool largest) const {
  return tessera::topk(self(), k, dim, largest);
}
template <class X>
Tensor TensorMethods<X>::argsort(int64_t dim, bool descending) const {
  return tessera::argsort(self(), dim, descending);
}
template <class X>
ValuesAndIndices<X> TensorMethods<X>::kthvalue(int64_t k, int64_t dim, bool keepdim) const {
  return tessera::kthvalue(self(), k, dim, keepdim);
}
template <class X>
UniqueValues TensorMethods<X>::unique_all() const {
  return tessera::unique_all(self());
}
template <class X>
Tensor TensorMethods<X>::bincount(const Tensor& weights, int64_t minlength) const {
  return tessera::bincount(self(), weights, minlength);
}

}  // namespace tessera
