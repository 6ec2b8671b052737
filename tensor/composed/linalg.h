#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/ops/linalg/least_squares.h"
#include "tensor/ops/linalg/solves.h"

/// Functions of torch.linalg that are made of others. Those on Variables are in
/// autograd/functions/linalg/composed.h; tensor/composed/linalg.inc holds one definition for both. They throw
/// as the functions of which they are made, and where noted.
namespace tessera {

/// The logarithm of the determinant: NaN where it is negative, -infinity where it is 0.
Tensor logdet(const Tensor& a);

namespace linalg {

/// Which norm of a matrix: a number (1, -1, 2, -2 or an infinity), "fro" or "nuc".
class MatrixNorm {
 public:
  /// From a number, or a name.
  /// @{
  MatrixNorm(double order) : order_(order) {}
  MatrixNorm(int order) : order_(order) {}
  MatrixNorm(const char* name) : name_(name) {}
  /// @}
  std::string_view name() const { return name_; }  ///< "" for a number
  double order() const { return order_; }          ///< the number

 private:
  double order_ = 0;
  std::string_view name_ = "";
};

/// The norm (sum |x|^p)^(1/p) over `dims`, or over all: p = `order`; an infinity gives the largest or
/// smallest magnitude, 0 the count of values that are not 0.
Tensor vector_norm(const Tensor& x, double order = 2, const Shape& dims = {}, bool keepdim = false);
/// A norm of the matrices in the two dimensions `dims`: "fro" the root of the sum of squares, "nuc" the sum
/// of the singular values, infinity and -infinity the largest and the smallest sum of a row's magnitudes, 1
/// and -1 of a column's, 2 and -2 the largest and smallest singular value. Throws ValueError for another one.
Tensor matrix_norm(const Tensor& a, const MatrixNorm& order = "fro", const Shape& dims = {-2, -1},
                   bool keepdim = false);
/// `matrix_norm` for two dimensions and an order; else `vector_norm`. Without an order: the root of the sum
/// of squares.
Tensor norm(const Tensor& x, std::optional<MatrixNorm> order = {}, const Shape& dims = {},
            bool keepdim = false);
/// The condition number |A| |A^-1| in a norm of `matrix_norm`; without one, the ratio of the singular values,
/// which is infinite for a singular matrix. Throws LinAlgError in the other norms.
Tensor cond(const Tensor& a, std::optional<MatrixNorm> order = {});

/// A^n of square matrices by repeated squaring; the inverse's power for a negative n.
Tensor matrix_power(const Tensor& a, int64_t n);
/// The product of all matrices in the order of the fewest operations (Cormen et al., 15.2). The first and the
/// last one may be vectors. Throws ValueError for fewer than two operands, ShapeError for others than
/// matrices.
/// @{
Tensor multi_dot(std::span<const Tensor> matrices);
Tensor multi_dot(std::initializer_list<Tensor> matrices);
/// @}
/// The X with A X = B from the factor `l` of `cholesky`, and the inverse of A.
/// @{
Tensor cholesky_solve(const Tensor& b, const Tensor& l, bool upper = false);
Tensor cholesky_inverse(const Tensor& l, bool upper = false);
/// @}
/// The X with tensordot(A, X, X.ndim()) = B. A's first dimensions are those of B, the others X's; both have
/// as many elements. Throws ShapeError.
Tensor tensorsolve(const Tensor& a, const Tensor& b);
/// The inverse of A as a mapping from its last dimensions to its first `ind`. Throws ShapeError.
Tensor tensorinv(const Tensor& a, int64_t ind = 2);

/// The cross product along `dim`, of extent 3. Throws ShapeError.
Tensor cross(const Tensor& a, const Tensor& b, int64_t dim = -1);
/// The sum of the products along `dim`.
Tensor vecdot(const Tensor& a, const Tensor& b, int64_t dim = -1);
/// (..., n) as (..., n, N): the powers 0 to N - 1 of each element; N = n without one. Throws ValueError for a
/// negative N.
Tensor vander(const Tensor& x, std::optional<int64_t> N = {});

namespace detail {
/// Element [i][j]: the last matrix of the first factor in the cheapest product of matrices i to j; matrix i
/// is (extents[i], extents[i + 1]).
std::vector<std::vector<int64_t>> chain_splits(const std::vector<int64_t>& extents);
}  // namespace detail

}  // namespace linalg
}  // namespace tessera
