#pragma once

#include <optional>

#include "tensor/tensor.h"
#include "tensor/types/scalar.h"

/// Elementwise functions of three operands, which broadcast and promote as in binary.h.
namespace tessera::ops {

/// a where `condition` (bool) is true, else b.
/// @{
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, const Scalar& b);
Tensor where(const Tensor& condition, const Scalar& a, const Tensor& b);
/// @}

/// x with `value` where `mask` (bool, broadcast to x's shape) is true.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Scalar& value);

/// min(max(x, low), high); NaN stays NaN. A missing bound does not limit x. Throws ValueError when both are
/// missing.
/// @{
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high);
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);
/// @}

/// a + weight (b - a), for floating dtypes.
/// @{
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
Tensor lerp(const Tensor& a, const Tensor& b, double weight);
/// @}

/// x + factor a b, and x + factor a / b, for floating dtypes.
/// @{
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double factor = 1.0);
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double factor = 1.0);
/// @}

/// x += factor a b; x keeps its dtype. With a 0-dim a this is x += scalar b in one pass.
void addcmul_(const Tensor& x, const Tensor& a, const Tensor& b, double factor = 1.0);
/// x += factor a / b, and x += weight (end - x); x keeps its dtype.
/// @{
void addcdiv_(const Tensor& x, const Tensor& a, const Tensor& b, double factor = 1.0);
void lerp_(const Tensor& x, const Tensor& end, double weight);
/// @}
/// `value`, one element of x's dtype, where `mask` (bool, broadcast to x's shape) is true, in place. Throws
/// ValueError when elements of x overlap.
/// @{
void masked_fill_(const Tensor& x, const Tensor& mask, const Scalar& value);
void masked_fill_(const Tensor& x, const Tensor& mask, const Tensor& value);
/// @}

}  // namespace tessera::ops
