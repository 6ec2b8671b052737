#pragma once  // internal

#include "tensor/functions.h"
#include "tensor/methods.h"

/// Definitions of methods (tensor/methods/definitions.h): shapes, places of elements, new constants.
namespace tessera {

template <class X>
X TensorMethods<X>::t() const {
  return tessera::t(self());
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
X TensorMethods<X>::type_as(const X& y) const {
  return self().to(y.device(), y.dtype());
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
X TensorMethods<X>::mT() const {
  return self().transpose(-2, -1);
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
std::vector<X> TensorMethods<X>::exact_chunks(size_t count, int64_t dim) const {
  std::vector<X> chunks = chunk(static_cast<int64_t>(count), dim);
  require<ShapeError>(chunks.size() == count, "chunk: expected ", count, " chunks, dimension ", dim, " of ",
                      self().shape(), " gives ", chunks.size());
  return chunks;
}
template <class X>
std::vector<X> TensorMethods<X>::unbind(int64_t dim) const {
  return tessera::unbind(self(), dim);
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

}  // namespace tessera
