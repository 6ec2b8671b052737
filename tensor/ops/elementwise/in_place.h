#pragma once

#include <optional>

#include "tensor/elementwise/op_lists.h"
#include "tensor/tensor.h"
#include "tensor/types/scalar.h"

/// x = f(x) for the functions of unary.h, binary.h and ternary.h; `fill_` is in creation.h, the arithmetic
/// ones are in binary.h. Each throws as its function, and ValueError when elements of x overlap each other,
/// as in an expanded view. Each counts a change of x.
namespace tessera::ops {

/// x = f(x) for the unary operations f of TESSERA_UNARY_IN_PLACE_OPS (tensor/elementwise/op_lists.h).
/// @{
#define TESSERA_DECLARE(name) void name##_(const Tensor& x);
TESSERA_UNARY_IN_PLACE_OPS(TESSERA_DECLARE)
#undef TESSERA_DECLARE
/// @}
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
