#pragma once  // internal

#include "tensor/functions.h"
#include "tensor/methods.h"

/// The definitions of TensorMethods, for the two sources that instantiate it: tensor/methods.cpp and
/// autograd/functions/methods.cpp, which includes the functions on Variables before this header.
namespace tessera {

/// A method that calls the function of its name, without further arguments, and with one or more.
/// @{
#define TESSERA_METHOD(name)         \
  template <class X>                 \
  X TensorMethods<X>::name() const { \
    return tessera::name(self());    \
  }
#define TESSERA_PREDICATE(name)           \
  template <class X>                      \
  Tensor TensorMethods<X>::name() const { \
    return tessera::name(self());         \
  }
#define TESSERA_WITH_OPERAND(Result, method, name)    \
  template <class X>                                  \
  Result TensorMethods<X>::method(const X& y) const { \
    return tessera::name(self(), y);                  \
  }
#define TESSERA_WITH_NUMBER(Result, method, name)          \
  template <class X>                                       \
  Result TensorMethods<X>::method(const Scalar& n) const { \
    return tessera::name(self(), n);                       \
  }
#define TESSERA_REDUCTION(Result, name)                                  \
  template <class X>                                                     \
  Result TensorMethods<X>::name(const Shape& dims, bool keepdim) const { \
    return tessera::name(self(), dims, keepdim);                         \
  }
#define TESSERA_ALONG(Result, method, name)                          \
  template <class X>                                                 \
  Result TensorMethods<X>::method(int64_t dim, bool keepdim) const { \
    return tessera::name(self(), dim, keepdim);                      \
  }
#define TESSERA_IN_PLACE(name)              \
  template <class X>                        \
  const X& TensorMethods<X>::name() const { \
    tessera::name(self());                  \
    return self();                          \
  }
#define TESSERA_IN_PLACE_WITH(name, Operand)                \
  template <class X>                                        \
  const X& TensorMethods<X>::name(const Operand& y) const { \
    tessera::name(self(), y);                               \
    return self();                                          \
  }
/// @}

TESSERA_METHOD(abs)
TESSERA_METHOD(neg)
TESSERA_METHOD(sign)
TESSERA_METHOD(square)
TESSERA_METHOD(sqrt)
TESSERA_METHOD(rsqrt)
TESSERA_METHOD(reciprocal)
TESSERA_METHOD(exp)
TESSERA_METHOD(exp2)
TESSERA_METHOD(expm1)
TESSERA_METHOD(log)
TESSERA_METHOD(log2)
TESSERA_METHOD(log10)
TESSERA_METHOD(log1p)
TESSERA_METHOD(sin)
TESSERA_METHOD(cos)
TESSERA_METHOD(tan)
TESSERA_METHOD(tanh)
TESSERA_METHOD(sigmoid)
TESSERA_METHOD(relu)
TESSERA_METHOD(sinh)
TESSERA_METHOD(cosh)
TESSERA_METHOD(erf)
TESSERA_METHOD(erfc)
TESSERA_METHOD(floor)
TESSERA_METHOD(ceil)
TESSERA_METHOD(round)
TESSERA_METHOD(trunc)
TESSERA_PREDICATE(isnan)
TESSERA_PREDICATE(isinf)
TESSERA_PREDICATE(isfinite)
TESSERA_PREDICATE(logical_not)
TESSERA_PREDICATE(argmax)
TESSERA_PREDICATE(argmin)
TESSERA_PREDICATE(bitwise_not)
TESSERA_PREDICATE(unique)
TESSERA_PREDICATE(bincount)
TESSERA_PREDICATE(nonzero)

TESSERA_WITH_OPERAND(X, add, add)
TESSERA_WITH_OPERAND(X, sub, sub)
TESSERA_WITH_OPERAND(X, mul, mul)
TESSERA_WITH_OPERAND(X, div, div)
TESSERA_WITH_OPERAND(X, remainder, remainder)
TESSERA_WITH_OPERAND(X, fmod, fmod)
TESSERA_WITH_OPERAND(X, logaddexp, logaddexp)
TESSERA_WITH_OPERAND(Tensor, floor_divide, floor_divide)
TESSERA_WITH_OPERAND(X, pow, pow)
TESSERA_WITH_OPERAND(X, maximum, maximum)
TESSERA_WITH_OPERAND(X, minimum, minimum)
TESSERA_WITH_OPERAND(X, matmul, matmul)
TESSERA_WITH_OPERAND(X, mm, mm)
TESSERA_WITH_OPERAND(X, bmm, bmm)
TESSERA_WITH_OPERAND(X, mv, mv)
TESSERA_WITH_OPERAND(X, dot, dot)
TESSERA_WITH_OPERAND(X, outer, outer)
TESSERA_WITH_NUMBER(X, add, add)
TESSERA_WITH_NUMBER(X, sub, sub)
TESSERA_WITH_NUMBER(X, mul, mul)
TESSERA_WITH_NUMBER(X, div, div)
TESSERA_WITH_NUMBER(X, remainder, remainder)
TESSERA_WITH_NUMBER(X, fmod, fmod)
TESSERA_WITH_NUMBER(Tensor, floor_divide, floor_divide)
TESSERA_WITH_NUMBER(X, pow, pow)
TESSERA_WITH_NUMBER(X, maximum, maximum)
TESSERA_WITH_NUMBER(X, minimum, minimum)
TESSERA_WITH_NUMBER(X, clamp_min, clamp_min)
TESSERA_WITH_NUMBER(X, clamp_max, clamp_max)
TESSERA_WITH_OPERAND(Tensor, eq, equal)
TESSERA_WITH_NUMBER(Tensor, eq, equal)
TESSERA_WITH_OPERAND(Tensor, ne, not_equal)
TESSERA_WITH_NUMBER(Tensor, ne, not_equal)
TESSERA_WITH_OPERAND(Tensor, lt, less)
TESSERA_WITH_NUMBER(Tensor, lt, less)
TESSERA_WITH_OPERAND(Tensor, le, less_equal)
TESSERA_WITH_NUMBER(Tensor, le, less_equal)
TESSERA_WITH_OPERAND(Tensor, gt, greater)
TESSERA_WITH_NUMBER(Tensor, gt, greater)
TESSERA_WITH_OPERAND(Tensor, ge, greater_equal)
TESSERA_WITH_NUMBER(Tensor, ge, greater_equal)
TESSERA_WITH_OPERAND(Tensor, logical_and, logical_and)
TESSERA_WITH_OPERAND(Tensor, logical_or, logical_or)
TESSERA_WITH_OPERAND(Tensor, logical_xor, logical_xor)
TESSERA_WITH_OPERAND(Tensor, bitwise_and, bitwise_and)
TESSERA_WITH_OPERAND(Tensor, bitwise_or, bitwise_or)
TESSERA_WITH_OPERAND(Tensor, bitwise_xor, bitwise_xor)
TESSERA_WITH_OPERAND(Tensor, bitwise_left_shift, bitwise_left_shift)
TESSERA_WITH_NUMBER(Tensor, bitwise_left_shift, bitwise_left_shift)
TESSERA_WITH_OPERAND(Tensor, bitwise_right_shift, bitwise_right_shift)
TESSERA_WITH_NUMBER(Tensor, bitwise_right_shift, bitwise_right_shift)
TESSERA_WITH_OPERAND(bool, array_equal, array_equal)

TESSERA_REDUCTION(X, sum)
TESSERA_REDUCTION(X, mean)
TESSERA_REDUCTION(X, prod)
TESSERA_REDUCTION(X, amax)
TESSERA_REDUCTION(X, amin)
TESSERA_REDUCTION(X, logsumexp)
TESSERA_REDUCTION(Tensor, any)
TESSERA_REDUCTION(Tensor, all)
TESSERA_ALONG(Tensor, argmax, argmax)
TESSERA_ALONG(Tensor, argmin, argmin)
TESSERA_ALONG(ValuesAndIndices<X>, max, max_along)
TESSERA_ALONG(ValuesAndIndices<X>, min, min_along)
TESSERA_ALONG(ValuesAndIndices<X>, median, median_along)
TESSERA_METHOD(max)
TESSERA_METHOD(min)
TESSERA_METHOD(median)
TESSERA_METHOD(t)
TESSERA_METHOD(trace)

TESSERA_IN_PLACE(zero_)
TESSERA_IN_PLACE(abs_)
TESSERA_IN_PLACE(neg_)
TESSERA_IN_PLACE(square_)
TESSERA_IN_PLACE(sqrt_)
TESSERA_IN_PLACE(rsqrt_)
TESSERA_IN_PLACE(reciprocal_)
TESSERA_IN_PLACE(exp_)
TESSERA_IN_PLACE(log_)
TESSERA_IN_PLACE(sin_)
TESSERA_IN_PLACE(cos_)
TESSERA_IN_PLACE(tanh_)
TESSERA_IN_PLACE(sigmoid_)
TESSERA_IN_PLACE(relu_)
TESSERA_IN_PLACE(floor_)
TESSERA_IN_PLACE(ceil_)
TESSERA_IN_PLACE(round_)
TESSERA_IN_PLACE_WITH(add_, X)
TESSERA_IN_PLACE_WITH(sub_, X)
TESSERA_IN_PLACE_WITH(mul_, X)
TESSERA_IN_PLACE_WITH(div_, X)
TESSERA_IN_PLACE_WITH(copy_, X)
TESSERA_IN_PLACE_WITH(add_, Scalar)
TESSERA_IN_PLACE_WITH(sub_, Scalar)
TESSERA_IN_PLACE_WITH(mul_, Scalar)
TESSERA_IN_PLACE_WITH(div_, Scalar)
TESSERA_IN_PLACE_WITH(pow_, Scalar)
TESSERA_IN_PLACE_WITH(fill_, Scalar)
TESSERA_IN_PLACE_WITH(clamp_min_, Scalar)
TESSERA_IN_PLACE_WITH(clamp_max_, Scalar)

#undef TESSERA_METHOD
#undef TESSERA_PREDICATE
#undef TESSERA_WITH_OPERAND
#undef TESSERA_WITH_NUMBER
#undef TESSERA_REDUCTION
#undef TESSERA_ALONG
#undef TESSERA_IN_PLACE
#undef TESSERA_IN_PLACE_WITH

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
bool TensorMethods<X>::allclose(const X& y, double rtol, double atol) const {
  return tessera::allclose(self(), y, rtol, atol);
}
template <class X>
X TensorMethods<X>::var(const Shape& dims, bool keepdim, int64_t correction) const {
  return tessera::var(self(), dims, keepdim, correction);
}
template <class X>
X TensorMethods<X>::std(const Shape& dims, bool keepdim, int64_t correction) const {
  return tessera::stddev(self(), dims, keepdim, correction);
}
template <class X>
X TensorMethods<X>::norm(double p, const Shape& dims, bool keepdim) const {
  return tessera::norm(self(), p, dims, keepdim);
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
X TensorMethods<X>::gather(int64_t dim, const Tensor& index) const {
  return tessera::gather(self(), dim, index);
}
template <class X>
X TensorMethods<X>::scatter(int64_t dim, const Tensor& index, const X& source) const {
  return tessera::scatter(self(), dim, index, source);
}
template <class X>
X TensorMethods<X>::scatter_add(int64_t dim, const Tensor& index, const X& source) const {
  return tessera::scatter_add(self(), dim, index, source);
}
template <class X>
X TensorMethods<X>::index_add(int64_t dim, const Tensor& index, const X& source) const {
  return tessera::index_add(self(), dim, index, source);
}
template <class X>
X TensorMethods<X>::index_select(int64_t dim, const Tensor& index) const {
  return tessera::index_select(self(), dim, index);
}
template <class X>
X TensorMethods<X>::take_along_dim(const Tensor& index, int64_t dim) const {
  return tessera::take_along(self(), index, dim);
}
template <class X>
X TensorMethods<X>::masked_fill(const Tensor& mask, const Scalar& value) const {
  return tessera::masked_fill(self(), mask, value);
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
X TensorMethods<X>::expand_as(const X& y) const {
  return tessera::expand(self(), y.shape());
}
template <class X>
X TensorMethods<X>::view_as(const X& y) const {
  return tessera::view(self(), y.shape());
}
template <class X>
X TensorMethods<X>::reshape_as(const X& y) const {
  return tessera::reshape(self(), y.shape());
}
template <class X>
X TensorMethods<X>::tril(int64_t diagonal) const {
  return tessera::tril(self(), diagonal);
}
template <class X>
X TensorMethods<X>::triu(int64_t diagonal) const {
  return tessera::triu(self(), diagonal);
}
template <class X>
X TensorMethods<X>::roll(int64_t shift, int64_t dim) const {
  return tessera::roll(self(), shift, dim);
}
template <class X>
X TensorMethods<X>::flip(const Shape& dims) const {
  return tessera::flip(self(), dims);
}
template <class X>
X TensorMethods<X>::repeat(const Shape& repeats) const {
  return tessera::repeat(self(), repeats);
}
template <class X>
std::vector<X> TensorMethods<X>::chunk(int64_t chunks, int64_t dim) const {
  return tessera::chunk(self(), chunks, dim);
}
template <class X>
std::vector<X> TensorMethods<X>::split(int64_t size, int64_t dim) const {
  return tessera::split(self(), size, dim);
}
template <class X>
std::vector<X> TensorMethods<X>::split(std::span<const int64_t> sizes, int64_t dim) const {
  return tessera::split(self(), sizes, dim);
}
template <class X>
std::vector<X> TensorMethods<X>::unbind(int64_t dim) const {
  return tessera::unbind(self(), dim);
}
template <class X>
std::vector<X> TensorMethods<X>::exact_chunks(size_t count, int64_t dim) const {
  std::vector<X> chunks = chunk(static_cast<int64_t>(count), dim);
  require<ShapeError>(chunks.size() == count, "chunk: expected ", count, " chunks, dimension ", dim, " of ",
                      self().shape(), " gives ", chunks.size());
  return chunks;
}

template <class X>
const X& TensorMethods<X>::clamp_(std::optional<Scalar> min, std::optional<Scalar> max) const {
  tessera::clamp_(self(), min, max);
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
template <class X>
X TensorMethods<X>::nan_to_num(double nan, std::optional<double> posinf, std::optional<double> neginf) const {
  return tessera::nan_to_num(self(), nan, posinf, neginf);
}
template <class X>
Tensor TensorMethods<X>::isclose(const X& y, double rtol, double atol, bool equal_nan) const {
  return tessera::isclose(self(), y, rtol, atol, equal_nan);
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
X TensorMethods<X>::diff(int64_t dim) const {
  return tessera::diff(self(), dim);
}
template <class X>
Tensor TensorMethods<X>::count_nonzero(const Shape& dims) const {
  return tessera::count_nonzero(self(), dims);
}
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
template <class X>
X TensorMethods<X>::masked_select(const Tensor& mask) const {
  return tessera::masked_select(self(), mask);
}
template <class X>
X TensorMethods<X>::masked_scatter(const Tensor& mask, const X& source) const {
  return tessera::masked_scatter(self(), mask, source);
}
template <class X>
X TensorMethods<X>::take(const Tensor& index) const {
  return tessera::take(self(), index);
}
template <class X>
X TensorMethods<X>::scatter(int64_t dim, const Tensor& index, const Scalar& value) const {
  return tessera::scatter(self(), dim, index, value);
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
X TensorMethods<X>::movedim(const Shape& source, const Shape& destination) const {
  return tessera::movedim(self(), source, destination);
}
template <class X>
X TensorMethods<X>::unflatten(int64_t dim, const Shape& sizes) const {
  return tessera::unflatten(self(), dim, sizes);
}
template <class X>
X TensorMethods<X>::diag(int64_t diagonal) const {
  return tessera::diag(self(), diagonal);
}
template <class X>
X TensorMethods<X>::diagonal(int64_t offset, int64_t dim1, int64_t dim2) const {
  return tessera::diagonal(self(), offset, dim1, dim2);
}
template <class X>
X TensorMethods<X>::tile(const Shape& repeats) const {
  return tessera::tile(self(), repeats);
}
template <class X>
X TensorMethods<X>::repeat_interleave(int64_t count, std::optional<int64_t> dim) const {
  return tessera::repeat_interleave(self(), count, dim);
}
template <class X>
X TensorMethods<X>::repeat_interleave(const Tensor& counts, std::optional<int64_t> dim) const {
  return tessera::repeat_interleave(self(), counts, dim);
}
template <class X>
X TensorMethods<X>::type_as(const X& y) const {
  return self().to(y.device(), y.dtype());
}
template <class X>
Tensor TensorMethods<X>::new_empty(const Shape& shape, std::optional<DType> dtype) const {
  return Tensor::empty(shape, dtype.value_or(self().dtype()), self().device());
}
template <class X>
Tensor TensorMethods<X>::new_zeros(const Shape& shape, std::optional<DType> dtype) const {
  return Tensor::zeros(shape, dtype.value_or(self().dtype()), self().device());
}
template <class X>
Tensor TensorMethods<X>::new_ones(const Shape& shape, std::optional<DType> dtype) const {
  return tessera::ones(shape, dtype.value_or(self().dtype()), self().device());
}
template <class X>
Tensor TensorMethods<X>::new_full(const Shape& shape, const Scalar& n, std::optional<DType> dtype) const {
  return tessera::full(shape, n, dtype.value_or(self().dtype()), self().device());
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

}  // namespace tessera
