#pragma once  // internal

#include "tensor/tensor.h"

/// Operands of f32 or f64 and any strides, with any number of leading dimensions; results are contiguous.
/// What they compute is in tensor/ops/linalg.
namespace tessera::kernels::cpu {

void cholesky(const Tensor& a, const Tensor& l);
/// Where `regular` names an operation, a singular matrix is a LinAlgError of it.
void lu_factor(const Tensor& a, const char* regular, const Tensor& lu, const Tensor& pivots);
/// From pivots i32 (..., n) to rows i64 (..., n).
void pivots_to_rows(const Tensor& pivots, const Tensor& rows);
/// The x of A x = b: `a` (..., n, n), `b` and `x` (..., n, k).
void solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool unitriangular, const Tensor& x);
/// Without a defined `q`: R alone.
void qr(const Tensor& a, const Tensor& q, const Tensor& r);
/// Reads the lower triangle. Without defined `vectors`: the values alone.
void eigh(const Tensor& a, const Tensor& vectors, const Tensor& values);
/// Without defined `u` and `vh`: the values alone.
void svd(const Tensor& a, const Tensor& u, const Tensor& vh, const Tensor& s);

}  // namespace tessera::kernels::cpu
