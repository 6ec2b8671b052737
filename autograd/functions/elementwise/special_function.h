#pragma once

#include <optional>

#include "autograd/variable.h"
#include "tensor/types/scalar.h"

/// Special functions of Variables, documented with those on Tensors in
/// tensor/ops/elementwise/special_function.h and tensor/composed/elementwise/special.h: differentiable to any
/// order. Under autocast they are in f32.
namespace tessera {

// clang-format off
/// They save x; `erfinv` saves its result.
/// @{
Variable asin(const Variable& x);
Variable acos(const Variable& x);
Variable atan(const Variable& x);
Variable asinh(const Variable& x);
Variable acosh(const Variable& x);
Variable atanh(const Variable& x);
Variable erfinv(const Variable& x);
Variable lgamma(const Variable& x);
Variable digamma(const Variable& x);
Variable polygamma(int64_t n, const Variable& x);
/// @}
/// They save both operands; the gradient of `atan2` at (0, 0) is 0, that of `copysign` at a = 0 too, and
/// that of `hypot` at (0, 0) NaN.
/// @{
Variable atan2(const Variable& y, const Variable& x);
Variable hypot(const Variable& a, const Variable& b);
Variable copysign(const Variable& a, const Variable& b);
/// @}
/// Made of others.
/// @{
Variable xlogy(const Variable& a, const Variable& b);
Variable logit(const Variable& x, std::optional<double> epsilon = {});
Variable sinc(const Variable& x);
Variable float_power(const Variable& a, const Variable& b);
Variable float_power(const Variable& a, const Scalar& b);
/// @}
/// a + weight (b - a), with a weight for each element. Saves all three.
Variable lerp(const Variable& a, const Variable& b, const Variable& weight);
/// x limited by bounds for each element, which get a gradient too; an undefined one does not limit x. Where
/// `min` is above `max` the result is `max`; NaN in any operand gives NaN. Where x equals a bound, both get
/// half of the gradient. Saves operands. Throws ValueError when both bounds are undefined.
/// @{
Variable clamp(const Variable& x, const Variable& min, const Variable& max);
Variable clamp_min(const Variable& x, const Variable& min);
Variable clamp_max(const Variable& x, const Variable& max);
/// @}
/// Without a gradient.
/// @{
Tensor heaviside(const Variable& x, const Variable& values);
Tensor nextafter(const Variable& a, const Variable& b);
/// @}
// clang-format on

}  // namespace tessera
