#pragma once

#include <optional>

#include "tensor/tensor.h"
#include "tensor/types/scalar.h"

/// x = f(x) for the functions of unary.h, binary.h and ternary.h; `fill_` is in creation.h, the arithmetic
/// ones are in binary.h. Each throws as its function, and ValueError when elements of x overlap each other,
/// as in an expanded view. Each counts a change of x.
namespace tessera::ops {

void abs_(const Tensor& x);         ///< |x|
void neg_(const Tensor& x);         ///< -x
void square_(const Tensor& x);      ///< x^2
void relu_(const Tensor& x);        ///< max(x, 0)
void exp_(const Tensor& x);         ///< e^x
void log_(const Tensor& x);         ///< the natural logarithm
void sqrt_(const Tensor& x);        ///< the square root
void rsqrt_(const Tensor& x);       ///< 1 / sqrt(x)
void reciprocal_(const Tensor& x);  ///< 1 / x
void sin_(const Tensor& x);         ///< the sine
void cos_(const Tensor& x);         ///< the cosine
void tanh_(const Tensor& x);        ///< the hyperbolic tangent
void sigmoid_(const Tensor& x);     ///< 1 / (1 + e^-x)
void floor_(const Tensor& x);       ///< rounded down
void ceil_(const Tensor& x);        ///< rounded up
void round_(const Tensor& x);       ///< to the nearest integer, ties to even

/// x^n.
void pow_(const Tensor& x, const Scalar& n);
/// Limited to [low, high]. Throws ValueError when both bounds are missing.
void clamp_(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high = {});
void clamp_min_(const Tensor& x, const Scalar& min);  ///< at least `min`
void clamp_max_(const Tensor& x, const Scalar& max);  ///< at most `max`
/// 0.
void zero_(const Tensor& x);
/// The values of y, broadcast to x's shape and converted to its dtype; y may overlap x.
void copy_(const Tensor& x, const Tensor& y);

}  // namespace tessera::ops
