#pragma once

#include "autograd/variable.h"

namespace tessera {

/// The matrix product of `ops::matmul`: (..., m, k) by (..., k, n). Saves an operand only where the other's
/// gradient is wanted.
Variable matmul(const Variable& a, const Variable& b);

/// The product of two matrices, of two batches of matrices, of a matrix and a vector, and of two vectors, as
/// the raw ops; they save what `matmul` saves.
/// @{
Variable mm(const Variable& a, const Variable& b);
Variable bmm(const Variable& a, const Variable& b);
Variable mv(const Variable& a, const Variable& b);
Variable dot(const Variable& a, const Variable& b);
/// @}
/// The matrix a_i b_j of two vectors. Saves an operand only where the other's gradient is wanted.
Variable outer(const Variable& a, const Variable& b);

/// y = x W^T + b: x (..., in), weight (out, in), bias (out) or undefined. Saves the weight where x's gradient
/// is wanted, and x where the weight's is. The weight's gradient is added in place where its leaf has a
/// buffer.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {});

}  // namespace tessera
