#pragma once

#include "tensor/arguments/reduction.h"
#include "tensor/tensor.h"

/// Reductions over any axes of x. Negative `axes` count from the end; empty `axes` are all axes; with
/// `keepdim` a reduced axis stays, with extent 1. All throw IndexError for an axis outside x, ValueError for
/// an axis given twice. Half types are added up in f32; f32 is added up in f32 lanes, whose partial sums are
/// added in f64. The order depends on shape and strides alone, not on the number of threads. If a value is
/// NaN, so is the result.
namespace tessera::ops {

/// Integers and bool add up to i64; over nothing: 0.
Tensor sum(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
/// Throws DTypeError for integers; over nothing: NaN.
Tensor mean(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
/// Integers and bool multiply to i64; over nothing: 1.
Tensor prod(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
/// The largest value, and the smallest. Throw ShapeError over nothing.
/// @{
Tensor max(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
Tensor min(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
/// @}
/// bool: whether any element, or all elements, are not 0 (NaN is not 0). Over nothing: false and true.
/// @{
Tensor any(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
/// @}
/// The sum of squared deviations from the mean, divided by max(n - correction, 0). A divisor of 0 gives
/// infinity, or NaN where all values are equal (or n is 1). Throws DTypeError for integers. Two passes over
/// x: the mean, then the deviations.
Tensor var(const Tensor& x, const Shape& axes = {}, bool keepdim = false, int64_t correction = 1);
/// The square root of `var`.
Tensor std(const Tensor& x, const Shape& axes = {}, bool keepdim = false, int64_t correction = 1);
/// (sum |x|^p)^(1/p), added up in f64. p = infinity: the largest magnitude; minus infinity: the smallest; 0:
/// the number of values that are not 0. Throws DTypeError for integers, ValueError for a NaN p, ShapeError
/// for an infinite p over nothing.
Tensor norm(const Tensor& x, double p = 2, const Shape& axes = {}, bool keepdim = false);
/// log(sum(exp(x))) without overflow; minus infinity where all values are, or over nothing.
Tensor logsumexp(const Tensor& x, const Shape& axes = {}, bool keepdim = false);

/// i64: the position of the largest, or the smallest, value along `axis`: the first of equals, the first NaN
/// if there is one. Throw ShapeError over nothing.
/// @{
Tensor argmax(const Tensor& x, int64_t axis, bool keepdim = false);
Tensor argmin(const Tensor& x, int64_t axis, bool keepdim = false);
/// @}
/// The same over all elements in row-major order.
/// @{
Tensor argmax(const Tensor& x);
Tensor argmin(const Tensor& x);
/// @}

/// The largest values along `dim`, or the smallest, and the index of each: the first of equals, the first NaN
/// if there is one. Throw ShapeError over nothing.
/// @{
ValuesAndIndices<Tensor> max_along(const Tensor& x, int64_t dim, bool keepdim = false);
ValuesAndIndices<Tensor> min_along(const Tensor& x, int64_t dim, bool keepdim = false);
/// @}

/// The sum over the axes along which `shape` broadcasts to x's shape: the gradient of broadcasting. x itself
/// when the shapes are equal. Throws ShapeError when `shape` does not broadcast to x's.
Tensor sum_to(const Tensor& x, const Shape& shape);
/// The same with the sums in `dtype`: x's dtype, or f32 for an x of a half type, whose sums are then not
/// rounded. Throws DTypeError for another dtype.
Tensor sum_to(const Tensor& x, const Shape& shape, DType dtype);

}  // namespace tessera::ops
