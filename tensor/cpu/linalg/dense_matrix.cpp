#include "tensor/cpu/linalg/dense_matrix.h"

#include <algorithm>

#include "tensor/arguments/linalg.h"

namespace tessera::kernels::cpu {
namespace {

template <class T>
void store(const std::vector<double>& values, T* to) {
  std::transform(values.begin(), values.end(), to, [](double value) { return static_cast<T>(value); });
}

void store_values(const std::vector<double>& values, const Tensor& batch, int64_t i) {
  const int64_t offset = i * std::ssize(values);
  if (batch.dtype() == f64)
    store(values, batch.data<double>() + offset);
  else
    store(values, batch.data<float>() + offset);
}

}  // namespace

DenseMatrix DenseMatrix::identity(int64_t n) {
  DenseMatrix result(n, n);
  for (int64_t i = 0; i < n; ++i) result(i, i) = 1;
  return result;
}

DenseMatrix DenseMatrix::transposed() const {
  DenseMatrix result(columns, rows);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) result(j, i) = (*this)(i, j);
  return result;
}

DenseMatrix load_matrix(const Tensor& batch, int64_t i) {
  DenseMatrix result(batch.size(-2), batch.size(-1));
  const int64_t n = std::ssize(result.values);
  if (batch.dtype() == f64)
    std::copy_n(batch.data<double>() + i * n, n, result.values.begin());
  else
    std::copy_n(batch.data<float>() + i * n, n, result.values.begin());
  return result;
}

void store_matrix(const DenseMatrix& matrix, const Tensor& batch, int64_t i) {
  store_values(matrix.values, batch, i);
}

void store_vector(const std::vector<double>& vector, const Tensor& batch, int64_t i) {
  store_values(vector, batch, i);
}

int64_t batch_count(const Tensor& batch, int inner) {
  int64_t count = 1;
  for (int d = 0; d + inner < batch.ndim(); ++d) count *= batch.size(d);
  return count;
}

std::string matrix_name(const Tensor& batch, int64_t i) {
  if (batch.ndim() == 2) return "the matrix";
  Shape index = Shape::filled(batch.ndim() - 2, 0);
  for (int d = index.ndim() - 1; d >= 0; --d) {
    index[d] = i % batch.size(d);
    i /= batch.size(d);
  }
  return text("matrix ", index, " of the batch");
}

void require_finite(const char* where, const DenseMatrix& matrix, const Tensor& batch, int64_t i) {
  for (const double value : matrix.values)
    require<LinAlgError>(std::isfinite(value), where, ": expected finite values, ", matrix_name(batch, i),
                         " has ", value);
}

double make_reflection(double* x, int64_t n, double* v, const RowKernels& kernels) {
  double largest = 0;  // scaled by it, squares neither overflow nor vanish
  for (int64_t i = 1; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  v[0] = 1;
  for (int64_t i = 1; i < n; ++i) v[i] = largest == 0 ? 0 : x[i] / largest;
  if (largest == 0) return 0;
  const double alpha = x[0], tail = largest * std::sqrt(kernels.dot(v + 1, v + 1, n - 1));
  const double beta = -std::copysign(std::hypot(alpha, tail), alpha);
  for (int64_t i = 1; i < n; ++i) v[i] = x[i] / (alpha - beta);
  x[0] = beta;
  for (int64_t i = 1; i < n; ++i) x[i] = 0;
  return (beta - alpha) / beta;
}

Reflections triangularize(DenseMatrix& a, const RowKernels& kernels) {
  const int64_t m = a.rows, n = a.columns, count = std::min(m, n);
  Reflections result{DenseMatrix(count, m), std::vector<double>(static_cast<size_t>(count))};
  std::vector<double> column(static_cast<size_t>(m)), product(static_cast<size_t>(n));
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t i = k; i < m; ++i) column[i] = a(i, k);
    double* const v = result.vectors.row(k) + k;
    const double tau = result.taus[k] = make_reflection(column.data() + k, m - k, v, kernels);
    for (int64_t i = k; i < m; ++i) a(i, k) = column[i];
    if (tau == 0) continue;
    const int64_t width = n - k - 1;
    std::fill_n(product.begin(), width, 0.0);
    kernels.subtract(product.data(), width, v, m - k, a.row(k) + k + 1, n);  // -v^T A
    for (int64_t i = k; i < m; ++i) {
      const double factor = -tau * v[i - k];
      kernels.subtract(a.row(i) + k + 1, width, &factor, 1, product.data(), 0);
    }
  }
  return result;
}

DenseMatrix form_q(const Reflections& reflections, int64_t columns, const RowKernels& kernels) {
  const int64_t m = reflections.vectors.columns;
  DenseMatrix q(m, columns);
  for (int64_t i = 0; i < std::min(m, columns); ++i) q(i, i) = 1;
  std::vector<double> product(static_cast<size_t>(columns));
  for (int64_t k = reflections.vectors.rows - 1; k >= 0; --k) {
    const double tau = reflections.taus[k];
    if (tau == 0 || k >= columns) continue;
    const double* const v = reflections.vectors.row(k) + k;
    const int64_t width = columns - k;  // rows below k are still zero to its left
    std::fill_n(product.begin(), width, 0.0);
    kernels.subtract(product.data(), width, v, m - k, q.row(k) + k, columns);
    for (int64_t i = k; i < m; ++i) {
      const double factor = -tau * v[i - k];
      kernels.subtract(q.row(i) + k, width, &factor, 1, product.data(), 0);
    }
  }
  return q;
}

}  // namespace tessera::kernels::cpu
