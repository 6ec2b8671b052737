#pragma once  // internal

#include <cstdint>

namespace tessera::kernels::cpu {

/// One matrix product, c (m, n) = a (m, k) b (k, n); with `accumulate` it is added to c. c is row-major, with
/// rows `ldc` elements apart. So are a and b, or, where marked as transposed, their transposes. No extent is
/// 0.
template <class T, class C = T>
struct Gemm {
  int64_t m, n, k;
  const T* a;
  int64_t lda;
  bool a_transposed;
  const T* b;
  int64_t ldb;
  bool b_transposed;
  C* c;
  int64_t ldc;
  bool accumulate;

  const T* a_at(int64_t i, int64_t p) const { return a + (a_transposed ? p * lda + i : i * lda + p); }
  const T* b_at(int64_t p, int64_t j) const { return b + (b_transposed ? j * ldb + p : p * ldb + j); }

  /// The product that computes rows i..i+rows and columns j..j+columns of c, summed over all of k.
  Gemm tile(int64_t i, int64_t rows, int64_t j, int64_t columns) const {
    Gemm block = *this;
    block.m = rows;
    block.n = columns;
    block.a = a_at(i, 0);
    block.b = b_at(0, j);
    block.c = c + i * ldc + j;
    return block;
  }
};

}  // namespace tessera::kernels::cpu
