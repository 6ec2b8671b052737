#include "tensor/ops/linalg/least_squares.h"

#include <algorithm>
#include <limits>

#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/kernel.h"
#include "tensor/ops/linalg/matrices.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduction.h"
#include "tensor/ops/shaping.h"

namespace tessera::linalg {
namespace {

Tensor transposed(const Tensor& x) {
  return x.transpose(-2, -1);
}

/// bool, of the shape of `values` (..., k): whether they count.
Tensor above_tolerance(const Tensor& values, int64_t longer, const RankTolerance& tolerance) {
  const double atol = tolerance.atol.value_or(0);
  const double step = values.dtype() == f64 ? std::numeric_limits<double>::epsilon()
                                            : static_cast<double>(std::numeric_limits<float>::epsilon());
  const double rtol = tolerance.rtol.value_or(atol > 0 ? 0 : step * static_cast<double>(longer));
  if (values.size(-1) == 0) return ops::greater(values, atol);
  const Tensor bound = ops::maximum(ops::mul(ops::max(values, {-1}, true), rtol), atol);
  return ops::greater(values, bound);
}

/// Zero in place of the values that do not count, else 1 / s.
Tensor reciprocals(const Tensor& s, const Tensor& counted) {
  return ops::where(counted, ops::reciprocal(ops::where(counted, s, 1)), 0);
}

/// V diag(1 / s) U^T b.
Tensor apply_inverse(const SvdResult<Tensor>& factors, const Tensor& counted, const Tensor& b) {
  const Tensor scaled = ops::mul(transposed(factors.U), reciprocals(factors.S, counted).unsqueeze(-1));
  return ops::matmul(transposed(factors.Vh), b.defined() ? ops::matmul(scaled, b) : scaled);
}

Tensor mirrored(const Tensor& a) {
  return ops::add(ops::tril(a), transposed(ops::tril(a, -1)));
}

}  // namespace

Tensor pinv(const Tensor& a, const RankTolerance& tolerance, bool hermitian) {
  (hermitian ? require_square : require_matrices)("pinv", a);
  if (hermitian) return pinv(mirrored(a), tolerance, false);
  const SvdResult<Tensor> factors = svd(a, false);
  return apply_inverse(factors, above_tolerance(factors.S, std::max(a.size(-2), a.size(-1)), tolerance),
                       Tensor());
}

LstsqResult<Tensor> lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond) {
  require_matrices("lstsq", a);
  common_device("lstsq", {&a, &b});
  require_same_dtype("lstsq", {&a, &b});
  if (b.ndim() == 1 || (b.ndim() + 1 == a.ndim() && b.shape() == batch_shape(a.shape(), 1))) {
    LstsqResult<Tensor> result = lstsq(a, b.unsqueeze(-1), rcond);
    result.solution = result.solution.squeeze(-1);
    return result;
  }
  const int64_t m = a.size(-2), n = a.size(-1);
  require<ShapeError>(b.ndim() >= 2 && b.size(-2) == m, "lstsq: expected B (..., ", m, ", k) for A ",
                      a.shape(), ", got ", describe(b));
  const SvdResult<Tensor> factors = svd(a, false);
  const Tensor counted = above_tolerance(factors.S, std::max(m, n), {.rtol = rcond});
  LstsqResult<Tensor> result{apply_inverse(factors, counted, b), Tensor::empty({0}, a.dtype(), a.device()),
                             ops::sum(ops::cast(counted, i64), -1), factors.S};
  const bool full_rank = a.device().is_meta() || ops::all(counted).item_i64() != 0;
  if (m > n && full_rank)
    result.residuals = ops::sum(ops::square(ops::sub(ops::matmul(a, result.solution), b)), -2);
  return result;
}

Tensor matrix_rank(const Tensor& a, const RankTolerance& tolerance, bool hermitian) {
  (hermitian ? require_square : require_matrices)("matrix_rank", a);
  const Tensor values = hermitian ? ops::abs(eigvalsh(a)) : svdvals(a);
  return ops::sum(ops::cast(above_tolerance(values, std::max(a.size(-2), a.size(-1)), tolerance), i64), -1);
}

}  // namespace tessera::linalg
