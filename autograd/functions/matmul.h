#pragma once

#include "autograd/variable.h"

namespace tessera {

/// The matrix product of `ops::matmul`: (..., m, k) by (..., k, n). Saves an operand only where the other's
/// gradient is wanted.
Variable matmul(const Variable& a, const Variable& b);

/// y = x W^T + b: x (..., in), weight (out, in), bias (out) or undefined. Saves the weight where x's gradient
/// is wanted, and x where the weight's is. The weight's gradient is added in place where its leaf has a
/// buffer.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {});

}  // namespace tessera
