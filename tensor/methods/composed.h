#pragma once  // internal

#include "tensor/composed/elementwise/special.h"
#include "tensor/composed/indexing/places.h"
#include "tensor/composed/shaping/arrangements.h"
#include "tensor/composed/statistics/statistics.h"
#include "tensor/methods.h"

/// Definitions of methods (tensor/methods/definitions.h): special functions, statistics, arrangements.
namespace tessera {

#define TESSERA_METHOD(Result, name, parameters, ...)        \
  template <class X>                                         \
  Result TensorMethods<X>::name parameters const {           \
    return tessera::name(self() __VA_OPT__(, ) __VA_ARGS__); \
  }
// clang-format off
TESSERA_METHOD(X, asin, ())
TESSERA_METHOD(X, acos, ())
TESSERA_METHOD(X, atan, ())
TESSERA_METHOD(X, asinh, ())
TESSERA_METHOD(X, acosh, ())
TESSERA_METHOD(X, atanh, ())
TESSERA_METHOD(X, erfinv, ())
TESSERA_METHOD(X, lgamma, ())
TESSERA_METHOD(X, digamma, ())
TESSERA_METHOD(X, sinc, ())
TESSERA_METHOD(X, corrcoef, ())
TESSERA_METHOD(X, nanmedian, ())
TESSERA_METHOD(X, logit, (std::optional<double> epsilon), epsilon)
TESSERA_METHOD(X, atan2, (const X& y), y)
TESSERA_METHOD(X, hypot, (const X& y), y)
TESSERA_METHOD(X, copysign, (const X& y), y)
TESSERA_METHOD(X, xlogy, (const X& y), y)
TESSERA_METHOD(X, float_power, (const X& y), y)
TESSERA_METHOD(X, clamp_min, (const X& y), y)
TESSERA_METHOD(X, clamp_max, (const X& y), y)
TESSERA_METHOD(X, float_power, (const Scalar& n), n)
TESSERA_METHOD(Tensor, heaviside, (const X& values), values)
TESSERA_METHOD(Tensor, nextafter, (const X& y), y)
TESSERA_METHOD(Tensor, unique_consecutive, ())
TESSERA_METHOD(X, diff, (int64_t n, int64_t dim, const X& prepend, const X& append), n, dim, prepend, append)
TESSERA_METHOD(ValuesAndIndices<X>, cummax, (int64_t dim), dim)
TESSERA_METHOD(ValuesAndIndices<X>, cummin, (int64_t dim), dim)
TESSERA_METHOD(X, nansum, (const Shape& dims, bool keepdim), dims, keepdim)
TESSERA_METHOD(X, nanmean, (const Shape& dims, bool keepdim), dims, keepdim)
TESSERA_METHOD(Extremes<X>, aminmax, (const Shape& dims, bool keepdim), dims, keepdim)
TESSERA_METHOD(ValuesAndIndices<X>, nanmedian, (int64_t dim, bool keepdim), dim, keepdim)
TESSERA_METHOD(ValuesAndIndices<X>, mode, (int64_t dim, bool keepdim), dim, keepdim)
TESSERA_METHOD(X, quantile, (double q, std::optional<int64_t> dim, bool keepdim, std::string_view interpolation), q, dim, keepdim, interpolation)
TESSERA_METHOD(X, quantile, (const Tensor& q, std::optional<int64_t> dim, bool keepdim, std::string_view interpolation), q, dim, keepdim, interpolation)
TESSERA_METHOD(X, nanquantile, (double q, std::optional<int64_t> dim, bool keepdim, std::string_view interpolation), q, dim, keepdim, interpolation)
TESSERA_METHOD(X, nanquantile, (const Tensor& q, std::optional<int64_t> dim, bool keepdim, std::string_view interpolation), q, dim, keepdim, interpolation)
TESSERA_METHOD(X, renorm, (double p, int64_t dim, double maxnorm), p, dim, maxnorm)
TESSERA_METHOD(X, cov, (int64_t correction), correction)
TESSERA_METHOD(Tensor, histc, (int64_t bins, double min, double max), bins, min, max)
TESSERA_METHOD(X, index_put, (std::initializer_list<Index> indices, const X& value, bool accumulate), indices, value, accumulate)
TESSERA_METHOD(X, scatter_reduce, (int64_t dim, const Tensor& index, const X& source, std::string_view reduction, bool include_self), dim, index, source, reduction, include_self)
TESSERA_METHOD(X, index_reduce, (int64_t dim, const Tensor& index, const X& source, std::string_view reduction, bool include_self), dim, index, source, reduction, include_self)
TESSERA_METHOD(X, diag_embed, (int64_t offset, int64_t dim1, int64_t dim2), offset, dim1, dim2)
TESSERA_METHOD(X, diagonal_scatter, (const X& source, int64_t offset, int64_t dim1, int64_t dim2), source, offset, dim1, dim2)
TESSERA_METHOD(X, select_scatter, (const X& source, int64_t dim, int64_t index), source, dim, index)
TESSERA_METHOD(X, slice_scatter, (const X& source, int64_t dim, int64_t start, int64_t end, int64_t step), source, dim, start, end, step)
TESSERA_METHOD(X, rot90, (int64_t k, const Shape& dims), k, dims)
TESSERA_METHOD(X, swapaxes, (int64_t dim0, int64_t dim1), dim0, dim1)
TESSERA_METHOD(std::vector<X>, tensor_split, (int64_t sections, int64_t dim), sections, dim)
TESSERA_METHOD(std::vector<X>, tensor_split, (std::initializer_list<int64_t> indices, int64_t dim), indices, dim)
// clang-format on
#undef TESSERA_METHOD

template <class X>
X TensorMethods<X>::polygamma(int64_t n) const {
  return tessera::polygamma(n, self());
}
template <class X>
X TensorMethods<X>::unfold(int64_t dim, int64_t size, int64_t step) const {
  return tessera::unfold_along(self(), dim, size, step);
}

}  // namespace tessera
