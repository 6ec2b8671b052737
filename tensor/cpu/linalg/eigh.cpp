// Eigenvalues and vectors of symmetric matrices: Householder reflections to a tridiagonal matrix, then QL
// steps with implicit shifts (Golub and Van Loan, 8.3; EISPACK's tred2 and tql2). Vectors are rows, so that a
// rotation of two of them is one pass over contiguous memory.
#include <algorithm>
#include <limits>
#include <numeric>

#include "tensor/arguments/linalg.h"
#include "tensor/cpu/linalg/dense_matrix.h"
#include "tensor/cpu/linalg/factorizations.h"

namespace tessera::kernels::cpu {
namespace {

struct Tridiagonal {
  std::vector<double> diagonal, below;  ///< below[i] is element (i + 1, i); below[n - 1] is 0
};

void mirror_lower_triangle(DenseMatrix& a) {
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < i; ++j) a(j, i) = a(i, j);
}

/// T = Q^T A Q. `vectors`, the identity or empty, becomes Q^T.
Tridiagonal tridiagonalize(DenseMatrix& a, DenseMatrix& vectors, const RowKernels& kernels) {
  const int64_t n = a.rows;
  Tridiagonal t{std::vector<double>(static_cast<size_t>(n)), std::vector<double>(static_cast<size_t>(n))};
  DenseMatrix reflections(std::max<int64_t>(n - 2, 0), n);
  std::vector<double> taus(static_cast<size_t>(n)), pair(static_cast<size_t>(2 * n));
  for (int64_t k = 0; k + 2 < n; ++k) {
    const int64_t width = n - k - 1;
    double* const v = reflections.row(k) + k + 1;
    const double tau = taus[k] = make_reflection(a.row(k) + k + 1, width, v, kernels);
    if (tau == 0) continue;
    // A - v w^T - w v^T with w = p - (tau / 2)(p v) v, p = tau A v, of the trailing matrix.
    double* const w = pair.data();
    for (int64_t i = 0; i < width; ++i) w[i] = tau * kernels.dot(a.row(k + 1 + i) + k + 1, v, width);
    const double half = tau / 2 * kernels.dot(w, v, width);
    for (int64_t i = 0; i < width; ++i) w[i] -= half * v[i];
    std::copy_n(v, width, w + width);
    for (int64_t i = 0; i < width; ++i) {
      const double factors[2] = {v[i], w[i]};
      kernels.subtract(a.row(k + 1 + i) + k + 1, width, factors, 2, w, width);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    t.diagonal[i] = a(i, i);
    if (i + 1 < n) t.below[i] = a(i, i + 1);
  }
  if (vectors.rows == 0) return t;
  for (int64_t k = n - 3; k >= 0; --k) {  // rows before k + 1 are still those of the identity
    if (taus[k] == 0) continue;
    const double* const v = reflections.row(k) + k + 1;
    for (int64_t i = k + 1; i < n; ++i) {
      double* const row = vectors.row(i) + k + 1;
      const double factor = taus[k] * kernels.dot(row, v, n - k - 1);
      kernels.subtract(row, n - k - 1, &factor, 1, v, 0);
    }
  }
  return t;
}

/// One QL step on the block [l, m] with Wilkinson's shift; rotates the rows of `vectors`.
void ql_step(Tridiagonal& t, int64_t l, int64_t m, DenseMatrix& vectors, const RowKernels& kernels) {
  std::vector<double>&d = t.diagonal, &e = t.below;
  double g = (d[l + 1] - d[l]) / (2 * e[l]);
  g = d[m] - d[l] + e[l] / (g + std::copysign(std::hypot(g, 1.0), g));
  double s = 1, c = 1, p = 0;
  for (int64_t i = m - 1; i >= l; --i) {
    const double f = s * e[i], b = c * e[i];
    const double r = std::hypot(f, g);
    e[i + 1] = r;
    if (r == 0) {  // underflow: the block splits here
      d[i + 1] -= p;
      e[m] = 0;
      return;
    }
    s = f / r;
    c = g / r;
    const double shifted = d[i + 1] - p;
    const double q = (d[i] - shifted) * s + 2 * c * b;
    p = s * q;
    d[i + 1] = shifted + p;
    g = c * q - b;
    if (vectors.rows > 0) kernels.rotate(vectors.row(i), vectors.row(i + 1), vectors.columns, c, s);
  }
  d[l] -= p;
  e[l] = g;
  e[m] = 0;
}

/// Whether the QL steps converged; the values are then `t.diagonal`, in no order.
bool diagonalize(Tridiagonal& t, DenseMatrix& vectors, const RowKernels& kernels) {
  const int64_t n = std::ssize(t.diagonal);
  constexpr double epsilon = std::numeric_limits<double>::epsilon();
  for (int64_t l = 0; l < n; ++l)
    for (int step = 0;; ++step) {
      int64_t m = l;
      while (m + 1 < n &&
             std::abs(t.below[m]) > epsilon * (std::abs(t.diagonal[m]) + std::abs(t.diagonal[m + 1])))
        ++m;
      if (m == l) break;
      if (step == 60) return false;
      ql_step(t, l, m, vectors, kernels);
    }
  return true;
}

}  // namespace

void eigh(const Tensor& given, const Tensor& vectors, const Tensor& values) {
  const Tensor a = given.contiguous();
  const RowKernels kernels;
  const int64_t n = a.size(-1);
  for_each_matrix(batch_count(a), 4 * n * n * n, [&](int64_t i) {
    DenseMatrix matrix = load_matrix(a, i);
    mirror_lower_triangle(matrix);
    require_finite("eigh", matrix, a, i);
    DenseMatrix rows = vectors.defined() ? DenseMatrix::identity(n) : DenseMatrix();
    Tridiagonal t = tridiagonalize(matrix, rows, kernels);
    require<LinAlgError>(diagonalize(t, rows, kernels), "eigh: the iteration did not converge for ",
                         matrix_name(a, i));
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t x, int64_t y) { return t.diagonal[x] < t.diagonal[y]; });
    std::vector<double> sorted(static_cast<size_t>(n));
    DenseMatrix columns(vectors.defined() ? n : 0, n);
    for (int64_t j = 0; j < n; ++j) {
      sorted[j] = t.diagonal[order[j]];
      for (int64_t k = 0; k < columns.rows; ++k) columns(k, j) = rows(order[j], k);
    }
    store_vector(sorted, values, i);
    if (vectors.defined()) store_matrix(columns, vectors, i);
  });
}

}  // namespace tessera::kernels::cpu
