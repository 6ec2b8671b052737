#pragma once

#include <optional>

#include "autograd/variable.h"
#include "tensor/types/scalar.h"

namespace tessera {

/// a where `condition` (bool) holds, else b; all three broadcast. Saves the condition.
/// @{
Variable where(const Tensor& condition, const Variable& a, const Variable& b);
Variable where(const Tensor& condition, const Variable& a, const Scalar& b);
Variable where(const Tensor& condition, const Scalar& a, const Variable& b);
/// @}

/// `scalar` where `mask` (bool, broadcast to x's shape) holds, else x. Saves the mask.
Variable masked_fill(const Variable& x, const Tensor& mask, const Scalar& scalar);

/// x, limited to [`low`, `high`]; a missing bound does not limit it. The gradient is 0 where x was outside.
/// Saves x. Throws ValueError when both bounds are missing.
Variable clamp(const Variable& x, std::optional<Scalar> low, std::optional<Scalar> high);
/// x, at least `min`; x, at most `max`. As `clamp`.
/// @{
Variable clamp_min(const Variable& x, const Scalar& min);
Variable clamp_max(const Variable& x, const Scalar& max);
/// @}

/// a + weight (b - a).
Variable lerp(const Variable& a, const Variable& b, double weight);
/// x + factor a b. Saves an operand only where the other one's gradient is wanted.
Variable addcmul(const Variable& x, const Variable& a, const Variable& b, double factor = 1);
/// x + factor a / b. Saves a (where b's gradient is wanted) and b.
Variable addcdiv(const Variable& x, const Variable& a, const Variable& b, double factor = 1);

}  // namespace tessera
