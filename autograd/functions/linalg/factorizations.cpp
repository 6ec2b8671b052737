// A rule is the transpose of the factorisation's differential; each is derived in the README beside this
// file.
#include "autograd/functions/linalg/factorizations.h"

#include <algorithm>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/linalg/solves.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/creation/creation.h"

namespace tessera::linalg {
namespace {

Variable transposed(const Variable& x) {
  return transpose(x, -2, -1);
}

/// bool (n, n): the diagonal.
Tensor diagonal_mask(int64_t n, Device device) {
  return ops::eye(n, boolean, device);
}

/// (..., n) on the diagonal of (..., n, n).
Variable on_diagonal(const Variable& x) {
  return unsqueeze(x, -1) * Variable(ops::eye(x.size(-1), x.dtype(), x.device()));
}

/// x + y, either of which may be undefined.
Variable sum_of(const Variable& x, const Variable& y) {
  return !x.defined() ? y : !y.defined() ? x : x + y;
}

/// x[j] - x[i] at (i, j); 1 on the diagonal.
Variable differences_of(const Variable& x) {
  return masked_fill(unsqueeze(x, -2) - unsqueeze(x, -1), diagonal_mask(x.size(-1), x.device()), 1.0);
}

/// L of the packed factors, with ones on its diagonal.
Variable unit_lower(const Variable& lu) {
  return tril(lu, -1) + Variable(ops::eye(lu.size(-1), lu.dtype(), lu.device()));
}

/// The gradient of A = Q R for A with at least as many rows as columns.
Variable tall_qr_gradient(const Variable& q, const Variable& r, const Variable& dq, const Variable& dr) {
  Variable m;
  if (dr.defined()) m = matmul(r, transposed(dr));
  if (dq.defined()) m = sum_of(m, neg(matmul(transposed(dq), q)));
  const Variable symmetric = tril(m) + transposed(tril(m, -1));
  return solve_triangular(transposed(r), sum_of(dq, matmul(q, symmetric)), false, /*left=*/false);
}

/// The gradient of A = Q R for A with more columns than rows: of A = (A1 A2), R = (R1 R2), Q R1 = A1, R2 =
/// Q^T A2.
Variable wide_qr_gradient(const Variable& q, const Variable& r, const Variable& dq, const Variable& dr) {
  const int64_t m = r.size(-2), rest = r.size(-1) - m;
  const Variable r1 = narrow(r, -1, 0, m), r2 = narrow(r, -1, m, rest);
  if (!dr.defined()) {
    Shape after = Shape::filled(r.ndim(), 0);
    after[r.ndim() - 1] = rest;
    return pad(tall_qr_gradient(q, r1, dq, dr), Shape::filled(r.ndim(), 0), after);
  }
  const Variable dr1 = narrow(dr, -1, 0, m), dr2 = narrow(dr, -1, m, rest);
  const Variable from_r2 = matmul(matmul(q, r2), transposed(dr2));
  return cat({tall_qr_gradient(q, r1, sum_of(dq, from_r2), dr1), matmul(q, dr2)}, -1);
}

/// skew(x / distance), where skew(x) = x - x^T.
Variable rotation_of(const Variable& x, const Variable& distance) {
  return (x - transposed(x)) / distance;
}

/// The gradient of A = U diag(S) V^T, of k columns each; the gradients may be undefined.
Variable svd_gradient(const Variable& u, const Variable& s, const Variable& vh, const Variable& du,
                      const Variable& ds, const Variable& dvh) {
  const int64_t k = s.size(-1);
  Variable inner;  // U^T dA V
  if (ds.defined()) inner = on_diagonal(ds);
  if (!du.defined() && !dvh.defined()) return matmul(u, matmul(inner, vh));
  const Variable distance = differences_of(square(s));
  const Variable uu = du.defined() ? matmul(transposed(u), du) : Variable();
  const Variable vv = dvh.defined() ? matmul(vh, transposed(dvh)) : Variable();
  if (du.defined()) inner = sum_of(inner, rotation_of(uu, distance) * unsqueeze(s, -2));
  if (dvh.defined()) inner = sum_of(inner, rotation_of(vv, distance) * unsqueeze(s, -1));
  Variable gradient = matmul(u, matmul(inner, vh));
  // What of du and dvh is orthogonal to the columns.
  if (du.defined() && u.size(-2) > k)
    gradient = gradient + matmul((du - matmul(u, uu)) / unsqueeze(s, -2), vh);
  if (dvh.defined() && vh.size(-1) > k)
    gradient = gradient + matmul(u, (dvh - matmul(transposed(vv), vh)) / unsqueeze(s, -1));
  return gradient;
}

Variable first(const Variable& x, int64_t dim, int64_t k) {
  return !x.defined() || x.size(dim) == k ? x : narrow(x, dim, 0, k);
}

}  // namespace

Variable cholesky(const Variable& a, bool upper) {
  if (upper) return transposed(cholesky(transposed(a)));
  return record("cholesky", cholesky(a.value(), false), {a}, saved(saved_output(0)),
                [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  const Variable l = s[0], product = matmul(transposed(l), dy[0]);
                  const Variable inner = (tril(product) + transposed(tril(product, -1))) * 0.5;
                  const Variable left = solve_triangular(transposed(l), inner, /*upper=*/true);
                  return {solve_triangular(l, left, /*upper=*/false, /*left=*/false)};
                });
}

LuFactors<Variable> lu_factor(const Variable& a) {
  const LuFactors<Tensor> values = lu_factor(a.value(), nullptr);
  const Variable factors =
      record("lu_factor", values.LU, {a}, saved(saved_output(0), values.pivots),
             [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
               const Variable lu = s[0], lt = transposed(unit_lower(lu)), ut = transposed(triu(lu));
               const Variable inner = tril(matmul(lt, tril(dy[0], -1)), -1) + triu(matmul(triu(dy[0]), ut));
               const Variable left =
                   solve_triangular(lt, inner, /*upper=*/true, /*left=*/true, /*unitriangular=*/true);
               const Variable both = solve_triangular(ut, left, /*upper=*/false, /*left=*/false);
               return {matmul(Variable(permutation_matrix(s.tensor(1), lu.dtype())), both)};
             });
  return {factors, values.pivots};
}

LuMatrices<Variable> lu(const Variable& a) {
  const auto [factors, pivots] = lu_factor(a);
  return {permutation_matrix(pivots, a.dtype()), unit_lower(factors), triu(factors)};
}

QrFactors<Variable> qr(const Variable& a, std::string_view mode) {
  const QrFactors<Tensor> values = qr(a.value(), mode);
  const bool tall = a.size(-2) > a.size(-1);
  const char* const refused = mode == "r" ? "qr: the mode \"r\" has no gradient; use \"reduced\""
                              : mode == "complete" && tall
                                  ? "qr: the mode \"complete\" has no gradient for more rows "
                                    "than columns; use \"reduced\""
                                  : nullptr;
  const std::vector<Variable> factors =
      record("qr", std::vector<Tensor>{values.Q, values.R}, {a}, saved(saved_output(0), saved_output(1)),
             [refused](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
               require<AutogradError>(refused == nullptr, refused ? refused : "");
               const Variable q = s[0], r = s[1];
               return {r.size(-1) > r.size(-2) ? wide_qr_gradient(q, r, dy[0], dy[1])
                                               : tall_qr_gradient(q, r, dy[0], dy[1])};
             });
  return {factors[0], factors[1]};
}

EighResult<Variable> eigh(const Variable& a, std::string_view uplo) {
  const EighResult<Tensor> values = eigh(a.value(), uplo);
  const std::vector<Variable> results = record(
      "eigh", std::vector<Tensor>{values.eigenvalues, values.eigenvectors}, {a},
      saved(saved_output(0), saved_output(1)), [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
        const Variable v = s[1];
        Variable inner;  // V^T dA V
        if (dy[0].defined()) inner = on_diagonal(dy[0]);
        if (dy[1].defined()) {
          const Variable w = s[0], turned = matmul(transposed(v), dy[1]) / differences_of(w);
          inner = sum_of(inner, masked_fill(turned, diagonal_mask(w.size(-1), w.device()), 0.0));
        }
        return {matmul(v, matmul(inner, transposed(v)))};
      });
  return {results[0], results[1]};
}

Variable eigvalsh(const Variable& a, std::string_view uplo) {
  if (!Inputs({a}).recorded()) return eigvalsh(a.value(), uplo);
  return eigh(a, uplo).eigenvalues;
}

SvdResult<Variable> svd(const Variable& a, bool full_matrices) {
  const SvdResult<Tensor> values = svd(a.value(), full_matrices);
  const std::vector<Variable> results =
      record("svd", std::vector<Tensor>{values.U, values.S, values.Vh}, {a},
             saved(saved_output(0), saved_output(1), saved_output(2)),
             [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
               const Variable values_of_s = s[1];
               const int64_t k = values_of_s.size(-1);
               return {svd_gradient(first(s[0], -1, k), values_of_s, first(s[2], -2, k), first(dy[0], -1, k),
                                    dy[1], first(dy[2], -2, k))};
             });
  return {results[0], results[1], results[2]};
}

Variable svdvals(const Variable& a) {
  if (!Inputs({a}).recorded()) return svdvals(a.value());
  return svd(a, false).S;
}

}  // namespace tessera::linalg
