#pragma once

#include "autograd/variable.h"
#include "tensor/ops/linalg/factorizations.h"

/// The factorisations of tensor/ops/linalg/factorizations.h, differentiable to any order: the rules are made
/// of differentiable functions. The chapter beside this file derives them.
namespace tessera::linalg {

/// Saves L. The gradient is symmetric.
Variable cholesky(const Variable& a, bool upper = false);

/// Save the factors and the pivots.
/// @{
LuFactors<Variable> lu_factor(const Variable& a);
LuMatrices<Variable> lu(const Variable& a);
/// @}

/// Saves Q and R. Backward throws AutogradError for the mode "r", and for "complete" with more rows than
/// columns: the columns of Q beyond A's are not a differentiable function of A. The first min(m, n) columns
/// of A must be linearly independent.
QrFactors<Variable> qr(const Variable& a, std::string_view mode = "reduced");

/// Save the values and the vectors. The gradient by the vectors contains 1 / (w_j - w_i), so it is not finite
/// where values are repeated; the gradient by the values is.
/// @{
EighResult<Variable> eigh(const Variable& a, std::string_view uplo = "L");
Variable eigvalsh(const Variable& a, std::string_view uplo = "L");
/// @}

/// Save U, S and Vh. The gradient by U and Vh contains 1 / (s_j^2 - s_i^2), and for matrices that are not
/// square 1 / s_i: it is not finite where values are repeated, or 0. With `full_matrices` the columns of U
/// and the rows of Vh beyond the k-th have no gradient. The gradient by S is finite everywhere.
/// @{
SvdResult<Variable> svd(const Variable& a, bool full_matrices = true);
Variable svdvals(const Variable& a);
/// @}

}  // namespace tessera::linalg
