#pragma once

#include <string_view>

#include "tensor/arguments/linalg.h"
#include "tensor/tensor.h"

/// Factorisations of matrices, as in torch.linalg. An operand (..., m, n) is a batch of matrices, of f32 or
/// f64: half types are a DTypeError, as in PyTorch. All throw ShapeError for fewer than two dimensions, and
/// for matrices that are not square where that is needed. One thread computes a matrix, several share a
/// batch: results do not depend on the number of threads. The versions on Variables are in
/// autograd/functions/linalg/factorizations.h.
namespace tessera {

/// What `linalg::lu_factor` gives.
template <class X>
struct LuFactors {
  X LU;           ///< (..., n, n): U, and below its diagonal L, without the ones on L's diagonal
  Tensor pivots;  ///< i32, (..., n): row i was exchanged with row pivots[i], counted from 1
};
/// What `linalg::lu` gives: A = P L U.
template <class X>
struct LuMatrices {
  Tensor P;  ///< a permutation, of A's dtype
  X L;       ///< lower triangular with ones on the diagonal
  X U;       ///< upper triangular
};
/// What `linalg::qr` gives: A = Q R.
template <class X>
struct QrFactors {
  X Q;  ///< orthonormal columns
  X R;  ///< upper triangular
};
/// What `linalg::eigh` gives: A = V diag(values) V^T.
template <class X>
struct EighResult {
  X eigenvalues;   ///< (..., n), rising
  X eigenvectors;  ///< (..., n, n): the columns, orthonormal
};
/// What `linalg::svd` gives: A = U diag(S) Vh.
template <class X>
struct SvdResult {
  X U;   ///< (..., m, k), or (..., m, m)
  X S;   ///< (..., k), falling, k = min(m, n)
  X Vh;  ///< (..., k, n), or (..., n, n)
};
/// What `linalg::slogdet` gives: the determinant is sign exp(logabsdet).
template <class X>
struct SlogdetResult {
  X sign;       ///< -1, 0 or 1
  X logabsdet;  ///< -infinity for a singular matrix
};

namespace linalg {

/// The lower triangular L with A = L L^T, or `upper` with A = U^T U, of symmetric positive definite matrices;
/// only the lower triangle is read (of `upper`, the upper one). Throws LinAlgError naming the leading minor
/// that is not positive. (Golub and Van Loan, Matrix Computations, 4.2)
Tensor cholesky(const Tensor& a, bool upper = false);

/// A = P L U of square matrices, by partial pivoting. A singular matrix gives a U with 0 on its diagonal;
/// where `regular` names an operation, a LinAlgError of that name. (Golub and Van Loan, 3.4)
/// @{
LuFactors<Tensor> lu_factor(const Tensor& a, const char* regular = nullptr);
LuMatrices<Tensor> lu(const Tensor& a);
/// @}
/// i64, (..., n): the row of A that row i of P^T A is, from the pivots of `lu_factor`.
Tensor permutation_of(const Tensor& pivots);
/// P of A = P L U, of `dtype`.
Tensor permutation_matrix(const Tensor& pivots, DType dtype);

/// A = Q R by Householder reflections. `mode` "reduced": Q (..., m, k), R (..., k, n) with k = min(m, n);
/// "complete": Q (..., m, m), R (..., m, n); "r": R of "reduced", and a Q (0,). R's diagonal may be negative,
/// as LAPACK's. Throws ValueError for another mode. (Golub and Van Loan, 5.2)
QrFactors<Tensor> qr(const Tensor& a, std::string_view mode = "reduced");

/// Eigenvalues and eigenvectors of symmetric matrices. Only the triangle that `uplo` names, "L" or "U", is
/// read. A vector's sign is not determined, nor are the vectors of a repeated value. Throws ValueError for
/// another `uplo`, LinAlgError for values that are not finite. (Golub and Van Loan, 8.3)
/// @{
EighResult<Tensor> eigh(const Tensor& a, std::string_view uplo = "L");
Tensor eigvalsh(const Tensor& a, std::string_view uplo = "L");
/// @}

/// The singular value decomposition, by one-sided Jacobi rotations of a triangular factor. Columns of U and
/// rows of Vh are determined up to a common sign. `full_matrices` completes U and Vh to square matrices.
/// Throws LinAlgError for values that are not finite. (Golub and Van Loan, 8.6; Drmac and Veselic 2008)
/// @{
SvdResult<Tensor> svd(const Tensor& a, bool full_matrices = true);
Tensor svdvals(const Tensor& a);
/// @}

}  // namespace linalg
}  // namespace tessera
