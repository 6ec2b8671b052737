#pragma once

#include "autograd/variable.h"
#include "tensor/ops/linalg/least_squares.h"

/// The functions of tensor/ops/linalg/least_squares.h, differentiable to any order where A's rank does not
/// change (Golub and Pereyra 1973).
namespace tessera::linalg {

/// Saves A and the result.
Variable pinv(const Variable& a, const RankTolerance& tolerance = {}, bool hermitian = false);
/// Saves A and B; the solution has a gradient. Backward computes the pseudoinverse.
LstsqResult<Variable> lstsq(const Variable& a, const Variable& b, std::optional<double> rcond = {});

}  // namespace tessera::linalg
