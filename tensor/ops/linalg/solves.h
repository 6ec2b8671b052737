#pragma once

#include "tensor/ops/linalg/factorizations.h"

/// Systems of linear equations, inverses and determinants, as in torch.linalg; operands as in
/// factorizations.h. Batches of the two operands of a system broadcast.
namespace tessera::linalg {

/// The X with A X = B, or X A = B where not `left`, for a triangular A (..., n, n), of which only one
/// triangle is read; with `unitriangular` its diagonal counts as ones. A zero on the diagonal gives
/// infinities, as in PyTorch. Throws ShapeError.
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left = true,
                        bool unitriangular = false);

/// The X with A X = B, or X A = B where not `left`: A (..., n, n); B (..., n, k), or a vector (n,), or a
/// batch of vectors of the shape of A without its last dimension. Throws LinAlgError for a singular matrix.
Tensor solve(const Tensor& a, const Tensor& b, bool left = true);
/// The same for matrices B from the factors of `lu_factor`; with `adjoint` for A^T. A zero on the diagonal of
/// U gives infinities.
Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left = true,
                bool adjoint = false);
/// The inverse. Throws LinAlgError for a singular matrix.
Tensor inv(const Tensor& a);

/// The determinant, (...).
Tensor det(const Tensor& a);
/// Its sign and the logarithm of its absolute value, (...) each, without overflow.
SlogdetResult<Tensor> slogdet(const Tensor& a);

/// The matrix exponential, the sum of A^k / k!, of square matrices, by Pade's approximation of degree 13 with
/// scaling and squaring (Higham 2005). Throws LinAlgError for values that are not finite.
Tensor matrix_exp(const Tensor& a);

}  // namespace tessera::linalg
