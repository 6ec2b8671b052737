#pragma once

#include "autograd/variable.h"
#include "tensor/ops/linalg/solves.h"

/// The functions of tensor/ops/linalg/solves.h, differentiable to any order.
namespace tessera::linalg {

/// Saves A and X. The gradient of A is 0 outside of the triangle that is read.
Variable solve_triangular(const Variable& a, const Variable& b, bool upper, bool left = true,
                          bool unitriangular = false);
/// Saves A and X.
Variable solve(const Variable& a, const Variable& b, bool left = true);
/// Made of two triangular systems.
Variable lu_solve(const Variable& lu, const Tensor& pivots, const Variable& b, bool left = true,
                  bool adjoint = false);
/// Saves the inverse.
Variable inv(const Variable& a);

/// Saves A and the determinant. The gradient is the matrix of cofactors, also for singular matrices, for
/// which it is computed from singular vectors: second derivatives are then finite only where no singular
/// value is repeated.
Variable det(const Variable& a);
/// Saves A. Backward throws LinAlgError for a singular matrix.
SlogdetResult<Variable> slogdet(const Variable& a);

/// Saves A. The gradient is a block of the exponential of a matrix of twice the extent (Najfeld and Havel
/// 1995).
Variable matrix_exp(const Variable& a);

}  // namespace tessera::linalg
