#pragma once

#include <optional>

#include "tensor/ops/linalg/factorizations.h"

namespace tessera {

/// What `linalg::lstsq` gives.
template <class X>
struct LstsqResult {
  X solution;              ///< (..., n, k)
  Tensor residuals;        ///< (..., k): the squared distances, where m > n and A has full rank; else (0,)
  Tensor rank;             ///< i64, (...): the singular values above rcond times the largest
  Tensor singular_values;  ///< (..., min(m, n))
};

namespace linalg {

/// Singular values that count as 0, as in PyTorch: those of at most max(atol, rtol times the largest).
/// Without `rtol` it is max(m, n) times the rounding step of the dtype, or 0 where an `atol` above 0 is
/// given.
struct RankTolerance {
  std::optional<double> atol = {};  ///< absolute
  std::optional<double> rtol = {};  ///< relative to the largest singular value
};

/// The pseudoinverse (..., n, m) of A (..., m, n), of Moore and Penrose, from the singular value
/// decomposition. With `hermitian` A is taken as symmetric, and only its lower triangle is read.
Tensor pinv(const Tensor& a, const RankTolerance& tolerance = {}, bool hermitian = false);

/// The X of least |A X - B|, and of those the one of least |X|: A (..., m, n), B (..., m, k) or, as for
/// `solve`, vectors. By the singular value decomposition (LAPACK's driver "gelsd"); `rcond` is the relative
/// tolerance of `pinv`. Throws ShapeError.
LstsqResult<Tensor> lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond = {});

/// i64, (...): the number of singular values above the tolerance.
Tensor matrix_rank(const Tensor& a, const RankTolerance& tolerance = {}, bool hermitian = false);

}  // namespace linalg
}  // namespace tessera
