#pragma once

#include "autograd/variable.h"
#include "tensor/types/scalar.h"

namespace tessera {

/// a where `condition` (bool) holds, else b; all three broadcast. Saves the condition.
Variable where(const Tensor& condition, const Variable& a, const Variable& b);

/// `scalar` where `mask` (bool, broadcast to x's shape) holds, else x. Saves the mask.
Variable masked_fill(const Variable& x, const Tensor& mask, const Scalar& scalar);

/// x, limited to [`low`, `high`]. The gradient is 0 where x was outside. Saves x.
Variable clamp(const Variable& x, const Scalar& low, const Scalar& high);

/// a + weight (b - a).
Variable lerp(const Variable& a, const Variable& b, double weight);
/// x + factor a b. Saves an operand only where the other one's gradient is wanted.
Variable addcmul(const Variable& x, const Variable& a, const Variable& b, double factor = 1);
/// x + factor a / b. Saves a (where b's gradient is wanted) and b.
Variable addcdiv(const Variable& x, const Variable& a, const Variable& b, double factor = 1);

}  // namespace tessera
