#pragma once

#include "autograd/functions/elementwise/binary.h"

/// Reductions over any axes, counted from the end when negative; without axes, over all. With `keepdim` a
/// reduced axis stays with extent 1.
namespace tessera {

/// The sum. Nothing is saved.
Variable sum(const Variable& x, const Shape& axes = {}, bool keepdim = false);
/// The sum divided by the number of elements; NaN over nothing. Nothing is saved.
Variable mean(const Variable& x, const Shape& axes = {}, bool keepdim = false);
/// The product. Saves x and the result. If a factor is 0, the gradient needs n times the memory of x, with n
/// factors per result.
Variable prod(const Variable& x, const Shape& axes = {}, bool keepdim = false);
/// The largest or the smallest element; NaN if any is. Equal extremes share the gradient, and so do NaNs if
/// the result is NaN. Saves x and the result.
/// @{
Variable max(const Variable& x, const Shape& axes = {}, bool keepdim = false);
Variable min(const Variable& x, const Shape& axes = {}, bool keepdim = false);
/// @}
/// Squared deviations from the mean over max(n - correction, 0). Divided by 0, the result and the gradients
/// are infinite; for equal values both are NaN. Saves x.
Variable var(const Variable& x, const Shape& axes = {}, bool keepdim = false, int64_t correction = 1);
/// The square root of `var`; where it is 0, so is the gradient. With a divisor of 0 gradients are NaN. Saves
/// x and the result.
Variable std(const Variable& x, const Shape& axes = {}, bool keepdim = false, int64_t correction = 1);
/// (sum |x|^p)^(1/p), p above 0 or infinite. Saves x and the result; the gradient at 0 is 0, and equal
/// extremes share that of an infinite p.
Variable norm(const Variable& x, double p = 2, const Shape& axes = {}, bool keepdim = false);
/// log(sum(exp(x))) without overflow. Saves x.
Variable logsumexp(const Variable& x, const Shape& axes = {}, bool keepdim = false);

/// PyTorch's `max`: with a whole number, the largest values along that dimension and their indices (also
/// named `max_along`), to which alone the gradient goes; with a Variable or a floating number, the larger of
/// both, as `maximum`. `min` alike; `median` is the middle value in order, of two the smaller, and NaN if
/// there is one. Along a dimension they save the indices; the median of all elements saves x and the result,
/// and equal ones share its gradient.
/// @{
ValuesAndIndices<Variable> max_along(const Variable& x, int64_t dim, bool keepdim = false);
ValuesAndIndices<Variable> min_along(const Variable& x, int64_t dim, bool keepdim = false);
ValuesAndIndices<Variable> median_along(const Variable& x, int64_t dim, bool keepdim = false);
template <std::integral T>
ValuesAndIndices<Variable> max(const Variable& x, T dim, bool keepdim = false) {
  return max_along(x, dim, keepdim);
}
template <std::integral T>
ValuesAndIndices<Variable> min(const Variable& x, T dim, bool keepdim = false) {
  return min_along(x, dim, keepdim);
}
template <std::integral T>
ValuesAndIndices<Variable> median(const Variable& x, T dim, bool keepdim = false) {
  return median_along(x, dim, keepdim);
}
template <class T>
requires(std::same_as<T, Variable> || std::same_as<T, Tensor>) Variable max(const Variable& a, const T& b) {
  return maximum(a, b);
}
template <class T>
requires(std::same_as<T, Variable> || std::same_as<T, Tensor>) Variable min(const Variable& a, const T& b) {
  return minimum(a, b);
}
template <std::floating_point T>
Variable max(const Variable& x, T n) {
  return maximum(x, Scalar(n));
}
template <std::floating_point T>
Variable max(T n, const Variable& x) {
  return maximum(x, Scalar(n));
}
template <std::floating_point T>
Variable min(const Variable& x, T n) {
  return minimum(x, Scalar(n));
}
template <std::floating_point T>
Variable min(T n, const Variable& x) {
  return minimum(x, Scalar(n));
}
Variable median(const Variable& x);
/// @}
/// `max` and `min` over any dimensions, the values alone.
/// @{
Variable amax(const Variable& x, const Shape& dims = {}, bool keepdim = false);
Variable amin(const Variable& x, const Shape& dims = {}, bool keepdim = false);
/// @}
/// `std`, under a name that `using namespace tessera` does not make ambiguous.
Variable stddev(const Variable& x, const Shape& dims = {}, bool keepdim = false, int64_t correction = 1);

}  // namespace tessera
