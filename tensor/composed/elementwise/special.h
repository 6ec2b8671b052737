#pragma once

#include <optional>

#include "tensor/ops/elementwise/special_function.h"
#include "tensor/tensor.h"

/// Special functions of Tensors, with PyTorch's names and arguments: those that have a kernel, and those made
/// of other functions. On Variables they are in autograd/functions/elementwise/special_function.h;
/// special.inc has one definition for both. Operands broadcast and promote as those of `add`.
namespace tessera {

using ops::acos;
using ops::acosh;
using ops::asin;
using ops::asinh;
using ops::atan;
using ops::atan2;
using ops::atanh;
using ops::copysign;
using ops::digamma;
using ops::erfinv;
using ops::hypot;
using ops::lgamma;
using ops::nextafter;
using ops::polygamma;

/// a log(b), and 0 where a is 0 and b is not NaN.
Tensor xlogy(const Tensor& a, const Tensor& b);
/// log(x / (1 - x)), of x limited to [epsilon, 1 - epsilon] where an epsilon is given; the inverse of
/// `sigmoid`.
Tensor logit(const Tensor& x, std::optional<double> epsilon = {});
/// sin(pi x) / (pi x), and 1 at 0.
Tensor sinc(const Tensor& x);
/// 1 for x above 0, at 0 the element of `values`, else 0, also for NaN.
Tensor heaviside(const Tensor& x, const Tensor& values);
/// a^b in f64, for operands of any dtype.
/// @{
Tensor float_power(const Tensor& a, const Tensor& b);
Tensor float_power(const Tensor& a, const Scalar& b);
/// @}
/// x limited by a bound for each element: the larger, or the smaller, of both; NaN if either is. (`clamp` and
/// `lerp` with Tensors are in tensor/ops/elementwise/ternary.h.)
/// @{
Tensor clamp_min(const Tensor& x, const Tensor& min);
Tensor clamp_max(const Tensor& x, const Tensor& max);
/// @}

}  // namespace tessera
