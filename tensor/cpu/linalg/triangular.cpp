// Cholesky's factorisation, LU with partial pivoting, and triangular systems, row by row.
#include <algorithm>
#include <numeric>

#include "tensor/arguments/linalg.h"
#include "tensor/cpu/linalg/dense_matrix.h"
#include "tensor/cpu/linalg/factorizations.h"

namespace tessera::kernels::cpu {
namespace {

/// L in place of A's lower triangle, zeros above. Returns the leading minor that is not positive, or 0.
int64_t factor_cholesky(DenseMatrix& a, const RowKernels& kernels) {
  const int64_t n = a.rows;
  for (int64_t i = 0; i < n; ++i) {
    double* const row = a.row(i);
    for (int64_t j = 0; j < i; ++j) row[j] = (row[j] - kernels.dot(row, a.row(j), j)) / a(j, j);
    const double square = row[i] - kernels.dot(row, row, i);
    if (!(square > 0) || !std::isfinite(square)) return i + 1;
    row[i] = std::sqrt(square);
    std::fill(row + i + 1, row + n, 0.0);
  }
  return 0;
}

/// The columns [k, end) of the rows from k on: pivots, and L below the diagonal.
void factor_panel(DenseMatrix& a, int64_t k, int64_t end, int32_t* pivots, const RowKernels& kernels) {
  const int64_t n = a.rows;
  for (int64_t j = k; j < end; ++j) {
    int64_t pivot = j;
    for (int64_t i = j + 1; i < n; ++i)
      if (std::abs(a(i, j)) > std::abs(a(pivot, j))) pivot = i;
    pivots[j] = static_cast<int32_t>(pivot + 1);
    if (pivot != j) std::swap_ranges(a.row(j), a.row(j) + n, a.row(pivot));
    if (a(j, j) == 0) continue;  // the column is zero from here on
    for (int64_t i = j + 1; i < n; ++i) {
      const double factor = a(i, j) /= a(j, j);
      kernels.subtract(a.row(i) + j + 1, end - j - 1, &factor, 1, a.row(j) + j + 1, 0);
    }
  }
}

/// Right-looking, in panels of columns: the update of the rest reads a panel's rows of U once a row.
void factor_lu(DenseMatrix& a, int32_t* pivots, const RowKernels& kernels) {
  constexpr int64_t width = 32;
  const int64_t n = a.rows;
  for (int64_t k = 0; k < n; k += width) {
    const int64_t end = std::min(k + width, n);
    factor_panel(a, k, end, pivots, kernels);
    for (int64_t i = k + 1; i < n; ++i)
      kernels.subtract(a.row(i) + end, n - end, a.row(i) + k, std::min(i, end) - k, a.row(k) + end, n);
  }
}

void require_regular(const char* where, const DenseMatrix& lu, const Tensor& batch, int64_t i) {
  for (int64_t k = 0; k < lu.rows; ++k)
    require<LinAlgError>(lu(k, k) != 0, where, ": expected regular matrices; ", matrix_name(batch, i),
                         " is singular: element (", k, ", ", k, ") of U is 0 in its LU factorization");
}

/// X in place of B (n, k).
void substitute(const DenseMatrix& a, DenseMatrix& b, bool upper, bool unit, const RowKernels& kernels) {
  const int64_t n = a.rows, k = b.columns;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = upper ? n - 1 - step : step;
    const int64_t first = upper ? i + 1 : 0, count = upper ? n - 1 - i : i;
    double* const row = b.row(i);
    if (k == 1)
      row[0] -= kernels.dot(a.row(i) + first, b.row(first), count);
    else
      kernels.subtract(row, k, a.row(i) + first, count, b.row(first), k);
    if (unit) continue;
    const double diagonal = a(i, i);
    for (int64_t j = 0; j < k; ++j) row[j] /= diagonal;
  }
}

}  // namespace

void cholesky(const Tensor& given, const Tensor& l) {
  const Tensor a = given.contiguous();
  const RowKernels kernels;
  const int64_t n = a.size(-1);
  for_each_matrix(batch_count(a), n * n * n / 3, [&](int64_t i) {
    DenseMatrix matrix = load_matrix(a, i);
    const int64_t minor = factor_cholesky(matrix, kernels);
    require<LinAlgError>(minor == 0,
                         "cholesky: expected positive definite matrices; the leading minor of order ", minor,
                         " of ", matrix_name(a, i), " is not positive");
    store_matrix(matrix, l, i);
  });
}

void lu_factor(const Tensor& given, const char* regular, const Tensor& lu, const Tensor& pivots) {
  const Tensor a = given.contiguous();
  const RowKernels kernels;
  const int64_t n = a.size(-1);
  int32_t* const all_pivots = pivots.data<int32_t>();
  for_each_matrix(batch_count(a), n * n * n, [&](int64_t i) {
    DenseMatrix matrix = load_matrix(a, i);
    factor_lu(matrix, all_pivots + i * n, kernels);
    if (regular) require_regular(regular, matrix, a, i);
    store_matrix(matrix, lu, i);
  });
}

void pivots_to_rows(const Tensor& given, const Tensor& rows) {
  const Tensor pivots = given.contiguous();
  const int64_t n = pivots.size(-1);
  const int32_t* const from = pivots.data<int32_t>();
  int64_t* const to = rows.data<int64_t>();
  for_each_matrix(batch_count(pivots, 1), n, [&](int64_t i) {
    std::iota(to + i * n, to + (i + 1) * n, int64_t{0});
    for (int64_t j = 0; j < n; ++j) {
      const int64_t other = from[i * n + j] - 1;
      require<ValueError>(other >= 0 && other < n, "lu_solve: expected pivots from 1 to ", n, ", got ",
                          other + 1);
      std::swap(to[i * n + j], to[i * n + other]);
    }
  });
}

void solve_triangular(const Tensor& given_a, const Tensor& given_b, bool upper, bool unitriangular,
                      const Tensor& x) {
  const Tensor a = given_a.contiguous(), b = given_b.contiguous();
  const RowKernels kernels;
  const int64_t n = a.size(-1), k = b.size(-1);
  for_each_matrix(batch_count(a), n * n * k, [&](int64_t i) {
    const DenseMatrix matrix = load_matrix(a, i);
    DenseMatrix solution = load_matrix(b, i);
    substitute(matrix, solution, upper, unitriangular, kernels);
    store_matrix(solution, x, i);
  });
}

}  // namespace tessera::kernels::cpu
