#pragma once

#include "autograd/variable.h"

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

}  // namespace tessera
