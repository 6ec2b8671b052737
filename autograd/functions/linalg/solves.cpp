#include "autograd/functions/linalg/solves.h"

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/linalg/factorizations.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/linalg/matrices.h"
#include "tensor/ops/reduction.h"

namespace tessera::linalg {
namespace {

Variable transposed(const Variable& x) {
  return transpose(x, -2, -1);
}

/// (...) as factors of matrices (..., n, n).
Variable per_matrix(const Variable& x) {
  return unsqueeze(unsqueeze(x, -1), -1);
}

/// The gradients of A X = B: of B, and -dB X^T of A.
Gradients system_gradients(const Variable& db, const Variable& x, const Shape& a, const Shape& b,
                           const Wanted& wanted) {
  return {wanted[0] ? sum_to(neg(matmul(db, transposed(x))), a) : Variable(),
          wanted[1] ? sum_to(db, b) : Variable()};
}

/// The matrix of cofactors, det(A) A^-T, also of a singular A = U diag(s) V^T:
///     det(U) det(V) U diag(the products of all s but one) V^T.
Variable cofactors(const Variable& a) {
  const SvdResult<Variable> factors = svd(a, false);
  const int64_t n = a.size(-1);
  const Variable s = expand(unsqueeze(factors.S, -2), a.shape());
  const Variable others = prod(masked_fill(s, ops::eye(n, boolean, a.device()), 1.0), -1);
  const Tensor sign = ops::mul(det(factors.U.value()), det(factors.Vh.value()));
  return per_matrix(Variable(sign)) * matmul(factors.U * unsqueeze(others, -2), factors.Vh);
}

/// Whether a determinant is 0. On meta: false.
bool any_singular(const Tensor& determinants) {
  return !determinants.device().is_meta() && ops::any(ops::equal(determinants, 0)).item_i64() != 0;
}

}  // namespace

Variable solve_triangular(const Variable& a, const Variable& b, bool upper, bool left, bool unitriangular) {
  if (!left) return transposed(solve_triangular(transposed(a), transposed(b), !upper, true, unitriangular));
  return record("solve_triangular", solve_triangular(a.value(), b.value(), upper, true, unitriangular),
                {a, b}, saved(a, saved_output(0)),
                [upper, unitriangular, sa = a.shape(), sb = b.shape()](Saved& s, const Incoming& dy,
                                                                       const Wanted& wanted) -> Gradients {
                  const Variable db = solve_triangular(transposed(s[0]), dy[0], !upper, true, unitriangular);
                  Gradients gradients = system_gradients(db, s[1], sa, sb, wanted);
                  const int64_t skipped = unitriangular ? 1 : 0;
                  if (wanted[0])
                    gradients[0] = upper ? triu(gradients[0], skipped) : tril(gradients[0], -skipped);
                  return gradients;
                });
}

Variable solve(const Variable& a, const Variable& b, bool left) {
  const bool vectors =
      a.defined() && b.defined() && a.ndim() >= 2 &&
      (b.ndim() == 1 || (b.ndim() + 1 == a.ndim() && b.shape() == batch_shape(a.shape(), 1)));
  if (vectors && left) return squeeze(solve(a, unsqueeze(b, -1), true), -1);
  if (!left && !vectors && a.ndim() >= 2 && b.ndim() >= 2)
    return transposed(solve(transposed(a), transposed(b), true));
  return record(
      "solve", solve(a.value(), b.value(), left), {a, b}, saved(a, saved_output(0)),
      [sa = a.shape(), sb = b.shape()](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
        return system_gradients(solve(transposed(s[0]), dy[0], true), s[1], sa, sb, wanted);
      });
}

Variable lu_solve(const Variable& lu, const Tensor& pivots, const Variable& b, bool left, bool adjoint) {
  lu_solve(lu.value().to(meta()), pivots.to(meta()), b.value().to(meta()), left, adjoint);  // the checks
  if (!left) return transposed(lu_solve(lu, pivots, transposed(b), true, !adjoint));
  const Variable permutation = permutation_matrix(pivots, lu.dtype());
  if (!adjoint)
    return solve_triangular(lu, solve_triangular(lu, matmul(transposed(permutation), b), false, true, true),
                            true);
  const Variable turned = transposed(lu);
  return matmul(permutation, solve_triangular(turned, solve_triangular(turned, b, false), true, true, true));
}

Variable inv(const Variable& a) {
  return record("inv", inv(a.value()), {a}, saved(saved_output(0)),
                [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  const Variable turned = transposed(s[0]);
                  return {neg(matmul(turned, matmul(dy[0], turned)))};
                });
}

Variable det(const Variable& a) {
  return record("det", det(a.value()), {a}, saved(a, saved_output(0)),
                [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  if (any_singular(s.tensor(1))) return {per_matrix(dy[0]) * cofactors(s[0])};
                  return {per_matrix(dy[0] * s[1]) * transposed(inv(s[0]))};
                });
}

SlogdetResult<Variable> slogdet(const Variable& a) {
  const SlogdetResult<Tensor> values = slogdet(a.value());
  const Variable logarithm = record("slogdet", values.logabsdet, {a}, saved(a),
                                    [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                                      return {per_matrix(dy[0]) * transposed(inv(s[0]))};
                                    });
  return {Variable(values.sign), logarithm};
}

Variable matrix_exp(const Variable& a) {
  return record("matrix_exp", matrix_exp(a.value()), {a}, saved(a),
                [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  const Variable turned = transposed(s[0]);
                  const int64_t n = turned.size(-1);
                  const Variable zeros(Tensor::zeros(turned.shape(), turned.dtype(), turned.device()));
                  const Variable block = cat({cat({turned, dy[0]}, -1), cat({zeros, turned}, -1)}, -2);
                  return {narrow(narrow(matrix_exp(block), -2, 0, n), -1, n, n)};
                });
}

}  // namespace tessera::linalg
