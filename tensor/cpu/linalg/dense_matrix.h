#pragma once  // internal

#include <cmath>
#include <string>
#include <vector>

#include "tensor/cpu/linalg/matrix_rows.h"
#include "tensor/tensor.h"
#include "tensor/threads/parallel.h"

/// What the factorisations share. They compute in f64, also for operands of f32, whose results are rounded
/// once.
namespace tessera::kernels::cpu {

/// The row kernels of the current instruction set, chosen once for a factorisation.
struct RowKernels {
  decltype(&baseline::subtract_rows) subtract = TESSERA_PER_ISA(subtract_rows);
  decltype(&baseline::dot_rows) dot = TESSERA_PER_ISA(dot_rows);
  decltype(&baseline::rotate_rows) rotate = TESSERA_PER_ISA(rotate_rows);
};

/// A matrix in row-major order.
struct DenseMatrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> values;

  DenseMatrix() = default;
  DenseMatrix(int64_t m, int64_t n) : rows(m), columns(n), values(static_cast<size_t>(m * n)) {}
  double* row(int64_t i) { return values.data() + i * columns; }
  const double* row(int64_t i) const { return values.data() + i * columns; }
  double& operator()(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  double operator()(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
  static DenseMatrix identity(int64_t n);
  DenseMatrix transposed() const;
};

/// Matrix `i` of a contiguous batch (..., m, n) of f32 or f64.
DenseMatrix load_matrix(const Tensor& batch, int64_t i);
void store_matrix(const DenseMatrix& matrix, const Tensor& batch, int64_t i);
/// The same for vectors (..., n).
void store_vector(const std::vector<double>& vector, const Tensor& batch, int64_t i);

/// The product of the leading extents, without the last `inner` ones.
int64_t batch_count(const Tensor& batch, int inner = 2);
/// "the matrix", or "matrix (1, 2) of the batch": matrix `i` of (..., m, n), for messages.
std::string matrix_name(const Tensor& batch, int64_t i);
/// Throws LinAlgError naming the matrix unless all of its values are finite.
void require_finite(const char* where, const DenseMatrix& matrix, const Tensor& batch, int64_t i);

/// Calls body(i) for every matrix of a batch of `count`, in parallel; `work` is the number of operations on
/// one.
template <class Body>
void for_each_matrix(int64_t count, int64_t work, const Body& body) {
  parallel_for(count, 1 + 65536 / (work + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

/// The Householder reflections H_k = I - tau_k v_k v_k^T with H_{k-1} ... H_0 A = R upper triangular, k =
/// min(m, n).
struct Reflections {
  DenseMatrix vectors;       ///< row k is v_k, with zeros in front
  std::vector<double> taus;  ///< 0 where H_k is the identity
};
/// The reflection of x (n,) that leaves only its first element: x becomes (beta, 0, ...), `v` the vector with
/// v[0] =
/// 1. Returns tau. LAPACK's dlarfg, with beta's sign opposite to x[0]'s.
double make_reflection(double* x, int64_t n, double* v, const RowKernels& kernels);
/// A becomes R.
Reflections triangularize(DenseMatrix& a, const RowKernels& kernels);
/// The first `columns` columns of Q = H_0 H_1 ..., (m, columns).
DenseMatrix form_q(const Reflections& reflections, int64_t columns, const RowKernels& kernels);

}  // namespace tessera::kernels::cpu
