// Singular values and vectors by one-sided Jacobi rotations (Hestenes 1958), after a QR factorisation that
// leaves a small square matrix (Drmac and Veselic 2008). Rotations from the left make the rows of R
// orthogonal:
//     J^T R = S W^T, so A = Q R = (Q J) S W^T.
// Small singular values are as accurate as large ones, and a row is contiguous memory.
#include <algorithm>
#include <limits>
#include <numeric>

#include "tensor/arguments/linalg.h"
#include "tensor/cpu/linalg/dense_matrix.h"
#include "tensor/cpu/linalg/factorizations.h"

namespace tessera::kernels::cpu {
namespace {

/// A tall matrix, m >= n, as left diag(values) right.
struct Decomposition {
  DenseMatrix left;  ///< (m, n) or (m, m); empty where only values are wanted
  std::vector<double> values;
  DenseMatrix right;  ///< (n, n)
};

/// Makes rows p and q orthogonal. Whether they were not already.
bool orthogonalize(DenseMatrix& rows, DenseMatrix& rotations, int64_t p, int64_t q,
                   const RowKernels& kernels) {
  const int64_t n = rows.columns;
  double* const x = rows.row(p);
  double* const y = rows.row(q);
  const double xx = kernels.dot(x, x, n), yy = kernels.dot(y, y, n), xy = kernels.dot(x, y, n);
  constexpr double epsilon = std::numeric_limits<double>::epsilon();
  if (xy == 0 || std::abs(xy) <= epsilon * std::sqrt(xx) * std::sqrt(yy)) return false;
  const double zeta = (yy - xx) / (2 * xy);
  const double tangent = std::copysign(1 / (std::abs(zeta) + std::hypot(1.0, zeta)), zeta);
  const double c = 1 / std::hypot(1.0, tangent), s = c * tangent;
  kernels.rotate(x, y, n, c, s);
  if (rotations.rows > 0) kernels.rotate(rotations.row(p), rotations.row(q), n, c, s);
  return true;
}

/// Sweeps over all pairs of rows until each is orthogonal. Whether they converged.
bool orthogonalize_rows(DenseMatrix& rows, DenseMatrix& rotations, const RowKernels& kernels) {
  for (int sweep = 0; sweep < 60; ++sweep) {
    bool changed = false;
    for (int64_t p = 0; p + 1 < rows.rows; ++p)
      for (int64_t q = p + 1; q < rows.rows; ++q) changed |= orthogonalize(rows, rotations, p, q, kernels);
    if (!changed) return true;
  }
  return false;
}

/// Replaces row `i`, of a singular value 0, by a unit vector orthogonal to the rows before it.
void complete_row(DenseMatrix& rows, int64_t i, const RowKernels& kernels) {
  const int64_t n = rows.columns;
  double* const row = rows.row(i);
  for (int64_t axis = 0; axis < n; ++axis) {
    std::fill_n(row, n, 0.0);
    row[axis] = 1;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t j = 0; j < i; ++j) {
        const double factor = kernels.dot(row, rows.row(j), n);
        kernels.subtract(row, n, &factor, 1, rows.row(j), 0);
      }
    const double length = std::sqrt(kernels.dot(row, row, n));
    if (length < 0.5 / std::sqrt(static_cast<double>(n))) continue;  // one of the axes is not below that
    for (int64_t k = 0; k < n; ++k) row[k] /= length;
    return;
  }
}

/// left becomes left J, of its first columns, from the rows of J^T.
void rotate_columns(DenseMatrix& left, const DenseMatrix& rotations, const RowKernels& kernels) {
  const int64_t n = rotations.rows;
  std::vector<double> row(static_cast<size_t>(n));
  for (int64_t i = 0; i < left.rows; ++i) {
    for (int64_t j = 0; j < n; ++j) row[j] = kernels.dot(left.row(i), rotations.row(j), n);
    std::copy(row.begin(), row.end(), left.row(i));
  }
}

/// Rows in falling order of their lengths, which become 1. Returns the lengths.
std::vector<double> sort_and_normalize(DenseMatrix& rows, DenseMatrix& rotations, const RowKernels& kernels) {
  const int64_t n = rows.rows;
  std::vector<double> lengths(static_cast<size_t>(n)), sorted(lengths);
  for (int64_t i = 0; i < n; ++i) lengths[i] = std::sqrt(kernels.dot(rows.row(i), rows.row(i), n));
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  DenseMatrix vectors(n, n), turned(rotations.rows, n);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t from = order[i];
    sorted[i] = lengths[from];
    for (int64_t k = 0; k < n; ++k) vectors(i, k) = sorted[i] == 0 ? 0 : rows(from, k) / sorted[i];
    if (turned.rows > 0) std::copy_n(rotations.row(from), n, turned.row(i));
  }
  if (turned.rows > 0)
    for (int64_t i = 0; i < n; ++i)
      if (sorted[i] == 0) complete_row(vectors, i, kernels);
  rows = std::move(vectors);
  rotations = std::move(turned);
  return sorted;
}

/// Whether the rotations converged. `width`: the columns of `left`, 0 for values alone.
bool decompose_tall(DenseMatrix a, int64_t width, Decomposition& result) {
  const RowKernels kernels;
  const int64_t n = a.columns;
  double scale = 0;  // with values of at most 1, squares do not overflow
  for (const double value : a.values) scale = std::max(scale, std::abs(value));
  if (scale > 0)
    for (double& value : a.values) value /= scale;
  const Reflections reflections = triangularize(a, kernels);
  a.rows = n;
  a.values.resize(static_cast<size_t>(n * n));
  DenseMatrix rotations = width > 0 ? DenseMatrix::identity(n) : DenseMatrix();
  if (!orthogonalize_rows(a, rotations, kernels)) return false;
  result.values = sort_and_normalize(a, rotations, kernels);
  for (double& value : result.values) value *= scale;
  if (width == 0) return true;
  result.left = form_q(reflections, width, kernels);
  rotate_columns(result.left, rotations, kernels);
  result.right = std::move(a);
  return true;
}

}  // namespace

void svd(const Tensor& given, const Tensor& u, const Tensor& vh, const Tensor& s) {
  const Tensor a = given.contiguous();
  const int64_t m = a.size(-2), n = a.size(-1), longer = std::max(m, n), shorter = std::min(m, n);
  const bool wide = m < n;
  const int64_t width = !u.defined() ? 0 : wide ? vh.size(-2) : u.size(-1);
  for_each_matrix(batch_count(a), 16 * longer * shorter * shorter, [&](int64_t i) {
    DenseMatrix matrix = load_matrix(a, i);
    require_finite("svd", matrix, a, i);
    Decomposition result;
    require<LinAlgError>(decompose_tall(wide ? matrix.transposed() : std::move(matrix), width, result),
                         "svd: the rotations did not converge for ", matrix_name(a, i));
    store_vector(result.values, s, i);
    if (width == 0) return;
    store_matrix(wide ? result.right.transposed() : result.left, u, i);
    store_matrix(wide ? result.left.transposed() : result.right, vh, i);
  });
}

}  // namespace tessera::kernels::cpu
